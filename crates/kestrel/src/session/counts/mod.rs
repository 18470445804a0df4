//! Counts of a session: hits that no program saw, and what its maps hold.

pub(crate) mod cpu_values;
pub mod maps;
pub(crate) mod missed;
pub(crate) mod uncounted;
pub(crate) mod unwinding;
