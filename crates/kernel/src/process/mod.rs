//! Processes as seen by who starts them: a command held until released, signals, this thread's CPU and niceness, closing without waiting; /proc is `procfs`.

mod apart;
mod files;
mod held;
mod signal;
mod thread;
mod user;
mod watched;

pub use apart::{CLOSER, close_apart};
pub use files::allow_open_files;
pub use held::Held;
pub use signal::{Interrupt, Signal, send, send_to_group};
pub use thread::{pin_to_cpu, set_niceness, thread_id};
pub use user::{FileRights, user};
pub use watched::Watched;
