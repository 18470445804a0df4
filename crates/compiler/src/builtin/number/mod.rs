//! Built-ins that are plain numbers.

pub(super) mod cpu;
pub(super) mod rand;
