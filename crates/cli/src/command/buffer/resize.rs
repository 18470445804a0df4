//! `kestrel buffer resize`: resizes a buffer while events are recorded.

use super::session_option::SessionOption;
use crate::arguments::size;
use crate::exit::{Exit, Failure};
use crate::output::{Format, json};
use crate::style::bytes;
use clap::Args;
use kestrel::buffer::layout::MIN_BYTES;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::session::resize::Resized;
use std::io::Write;

/// Options of `buffer resize`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The buffer
    #[arg(value_name = "BUFFER")]
    buffer: String,
    /// Bytes per CPU, or with K, M, G, at most 256M; rounded up to a power of two, at least 8K
    #[arg(value_name = "SIZE", value_parser = size)]
    size: u64,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    session: SessionOption,
}

const EXAMPLES: &str = "\
Examples:
  kestrel buffer resize main 64M                          of the only session
  kestrel buffer resize main 256K --session web --format json

Tables and named probes switch to the new ring without losing an event. `kestrel buffer dump` includes the old ring until the next resize.
Handlers are recompiled for the new size; each event then costs a few nanoseconds more, because its handler is called from the hook.
The memory of the first size is freed when the session is stopped.";

/// Runs `kestrel buffer resize`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let catalog = Catalog::new(host.clone());
    let mut session = crate::sessions::store(&host)?.change(options.session.session.as_deref())?;
    let resized = session.resize(&options.buffer, options.size, &catalog)?;
    match options.format {
        Format::Json => {
            // A reader that went away is no failure.
            let _ = writeln!(crate::screen::out(), "{}", json::line(&resized)?);
        }
        Format::Text => print_summary(&resized, options.size),
    }
    Ok(Exit::Done)
}

fn print_summary(resized: &Resized, asked: u64) {
    let Resized {
        buffer,
        from,
        to,
        kept,
        removed,
        ..
    } = resized;
    if asked < MIN_BYTES {
        let least = bytes(MIN_BYTES);
        eprintln!("a buffer has at least {least} per CPU: the size is rounded up");
    }
    if from == to {
        eprintln!("buffer {buffer} has {} per CPU already", bytes(*to));
        return;
    }
    eprintln!(
        "buffer {buffer} has {} per CPU now, not {}",
        bytes(*to),
        bytes(*from)
    );
    if *kept > 0 {
        eprintln!(
            "  the {} that it held can be dumped until it is resized again",
            bytes(*kept)
        );
    }
    if *removed > 0 {
        eprintln!("  the {} from before its last resize are gone", bytes(*removed));
    }
}
