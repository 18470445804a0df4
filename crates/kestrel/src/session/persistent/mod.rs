//! Persistent sessions: where they are, how they start, what names their parts, how one is found again.

pub mod glance;
pub mod pinned;
pub(crate) mod pins;
pub mod start;
pub mod status;
pub mod store;
