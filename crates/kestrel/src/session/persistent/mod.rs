//! Persistent sessions: their pins in bpffs, their start, the names of their parts, opening one again.

pub mod glance;
pub mod pinned;
pub(crate) mod pins;
pub mod start;
pub mod status;
pub mod store;
