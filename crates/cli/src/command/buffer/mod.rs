//! `kestrel buffer`: the buffers of a persistent session; subcommands of a few lines are here, the others have a file each.

mod create;
mod dump;
mod list;
mod resize;
mod session_option;

use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use kestrel::catalog::Catalog;
use kestrel::dump::numbers;
use kestrel::kernel::Host;
use kestrel::kernel::procfs::monotonic;
use kestrel::session::control::Control;
use session_option::SessionOption;

/// Options of `buffer`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

/// A subcommand of `kestrel buffer`.
#[derive(Subcommand, Debug)]
enum Verb {
    /// List buffers: size, mode, fill, times of their records, losses
    List(list::Options),
    /// Write the contents of buffers into a trace directory, while recording goes on
    Dump(dump::Options),
    /// Freeze buffers: they keep their records and take no more until they are thawed
    Freeze(BuffersArgument),
    /// Thaw buffers: they take records again
    Thaw(BuffersArgument),
    /// Empty buffers: their records are no longer shown or dumped
    Reset(BuffersArgument),
    /// Create a buffer
    Create(create::Options),
    /// Remove a buffer and its records; no handler may use it
    Remove(BufferArgument),
    /// Make a buffer the current one of all CPUs: records that name no buffer go there
    ///
    /// Each CPU has its own current buffer, and CPUs are switched one after the other, not at one instant. To keep the records of one process together,
    /// use a buffer for that process (`create --process`).
    Use(BufferArgument),
    /// Resize a buffer while events are recorded; none is lost
    Resize(resize::Options),
}

/// Session and buffers named on the command line.
#[derive(Args, Debug)]
struct BuffersArgument {
    /// The buffers [default: all]
    #[arg(value_name = "BUFFER")]
    buffers: Vec<String>,
    #[command(flatten)]
    session: SessionOption,
}

/// Session and one buffer named on the command line.
#[derive(Args, Debug)]
struct BufferArgument {
    /// The buffer
    #[arg(value_name = "BUFFER")]
    buffer: String,
    #[command(flatten)]
    session: SessionOption,
}

/// Runs `kestrel buffer`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.verb {
        Verb::List(options) => list::run(options),
        Verb::Dump(options) => dump::run(options),
        Verb::Resize(options) => resize::run(options),
        Verb::Create(options) => create::run(options),
        Verb::Remove(named) => {
            let host = Host::default();
            let mut session = crate::sessions::store(&host)?.change(named.session.session.as_deref())?;
            session.remove_buffer(&named.buffer, &Catalog::new(host))?;
            eprintln!("buffer {} removed", named.buffer);
            Ok(Exit::Done)
        }
        Verb::Use(named) => {
            let session =
                crate::sessions::store(&Host::default())?.change(named.session.session.as_deref())?;
            session.use_buffer(&named.buffer)?;
            eprintln!("records go to buffer {}", named.buffer);
            Ok(Exit::Done)
        }
        Verb::Freeze(which) => {
            change_buffers(which, "frozen", |control, buffer| control.freeze(buffer, true))
        }
        Verb::Thaw(which) => change_buffers(which, "thawed", |control, buffer| control.freeze(buffer, false)),
        Verb::Reset(which) => change_buffers(which, "reset", |control, buffer| {
            control.reset(buffer, monotonic());
        }),
    }
}

fn change_buffers(which: &BuffersArgument, done: &str, act: fn(&Control, u32)) -> Result<Exit, Failure> {
    let session = crate::sessions::store(&Host::default())?.change(which.session.session.as_deref())?;
    let buffers = session.buffers()?;
    for number in numbers(&buffers, &which.buffers)? {
        act(session.control(), number);
        eprintln!("buffer {} {done}", buffers[number as usize].name());
    }
    Ok(Exit::Done)
}
