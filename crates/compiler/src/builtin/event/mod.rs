//! Built-ins about the event that fired.

pub(super) mod arg;
pub(super) mod func;
pub(super) mod probe;
pub(super) mod retval;
