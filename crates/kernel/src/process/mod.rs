//! Processes that are started and watched: a command held until released, signals, this thread's CPU and niceness, closing without waiting; /proc is `procfs`.

mod background_close;
mod files;
mod paused_command;
mod pidfd;
#[cfg(target_arch = "x86_64")]
mod program_entry;
mod signal;
mod terminal;
mod thread;
mod times;
mod user;

pub use background_close::{CLOSER, close_in_background};
pub use files::{allow_open_files, inherited};
pub use paused_command::{PausedCommand, has_ended};
pub use pidfd::Watched;
pub use signal::{Interrupt, Signal, UserSignal, send, send_to_group};
pub use terminal::TerminalSignals;
pub use thread::{pin_to_cpu, set_niceness, thread_id};
pub use times::children_times;
pub use user::{FileRights, user};
