//! Records as they come, in the order of their times over all CPUs, without a trace on disk: of the caller's session, or beside other readers of a persistent one.

mod listeners;
mod live;
mod queue;
mod watch;
mod watermark;

pub use listeners::Listeners;
pub use live::Live;
pub use watch::{Unseen, Watch};
