//! `kestrel buffer create`: adds a buffer to a running session.

use super::session_option::SessionOption;
use crate::arguments::size;
use crate::exit::{Exit, Failure};
use crate::style::bytes;
use clap::{Args, ValueEnum};
use kestrel::buffer::layout;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::session::owner::Owner;

/// Options of `buffer create`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The buffer's name
    #[arg(value_name = "BUFFER")]
    buffer: String,
    /// Bytes per CPU, or with K, M, G, at most 256M; rounded up to a power of two, at least 8K
    #[arg(value_name = "SIZE", value_parser = size)]
    size: u64,
    /// What happens when the buffer is full
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Make it the buffer of one process, given by number or by a parameter of the session: its records that name no buffer go there
    #[arg(long, value_name = "PID|PARAMETER", value_parser = Owner::parse)]
    process: Option<Owner>,
    #[command(flatten)]
    session: SessionOption,
}

/// Behaviour of a full buffer.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Mode {
    /// The oldest records are overwritten
    #[default]
    Overwrite,
    /// The newest records are lost and counted; `kestrel agent --log` reads it
    Stream,
}

const EXAMPLES: &str = "\
Examples:
  kestrel buffer create incident 64M             of the only session
  kestrel buffer use incident                    records of all CPUs go there from now on, one CPU after the other
  kestrel buffer create one 8M --process 1234    what happens while process 1234 runs, its children not included

Handlers name it as those of the table file: `record(to(\"incident\"))`, `use_buffer(\"incident\")`.";

/// Runs `kestrel buffer create`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let catalog = Catalog::new(host.clone());
    let mut session = crate::sessions::store(&host)?.change(options.session.session.as_deref())?;
    let mode = match options.mode {
        Mode::Overwrite => layout::Mode::Overwrite,
        Mode::Stream => layout::Mode::Stream,
    };
    let holds = session.create_buffer(
        &options.buffer,
        (options.size, mode),
        options.process.clone(),
        &catalog,
    )?;
    eprintln!("buffer {} holds {} per CPU", options.buffer, bytes(holds));
    Ok(Exit::Done)
}
