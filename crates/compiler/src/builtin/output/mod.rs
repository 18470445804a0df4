//! Built-ins that write.

pub(super) mod record;
