//! Built-ins about time.

pub(super) mod elapsed;
pub(super) mod nsecs;
