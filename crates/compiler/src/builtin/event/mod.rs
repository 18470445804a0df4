//! Built-ins about the event that fired.

pub(super) mod arg;
pub(super) mod entry;
pub(super) mod func;
pub(super) mod probe;
pub(super) mod reg;
pub(super) mod regs;
pub(super) mod retval;
