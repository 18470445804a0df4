//! `kestrel print`: a recorded trace as lines, in order of time.

use super::{Format, default_trace};
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::read::Losses;
use kestrel_trace::print::{self, Json, Printer, Style, Text};
use std::path::PathBuf;

/// Options of `print`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The trace directory
    #[arg(value_name = "DIR", default_value_os_t = default_trace())]
    trace: PathBuf,
    /// How lines look
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Times with nine decimals
    #[arg(long)]
    ns: bool,
}

/// Prints.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut trace = directory::open(&options.trace)?;
    let mut printer: Box<dyn Printer> = match options.format {
        Format::Json => Box::new(Json::new(trace.symbols)),
        Format::Text => Box::new(Text::new(
            Style {
                nanoseconds: options.ns,
            },
            trace.symbols,
            trace.processes,
        )),
    };
    let mut stdout = std::io::stdout().lock();
    let records = print::all(
        &mut trace.reader,
        printer.as_mut(),
        &mut stdout,
        "standard output",
    )?;
    let lost = trace
        .summary
        .as_ref()
        .map_or(0, kestrel_trace::summary::Summary::lost);
    tell(&trace.reader.losses(), lost);
    Ok(if records == 0 { Exit::Failed } else { Exit::Done })
}

/// Losses go to stderr: data stays clean.
fn tell(losses: &Losses, lost: u64) {
    let lost = losses.discarded.max(lost);
    if lost > 0 {
        eprintln!("lost {lost} events while recording: the ring was full");
    }
    if losses.packets_missing > 0 {
        eprintln!("{} packets are missing", losses.packets_missing);
    }
    if losses.packets_damaged > 0 {
        eprintln!("{} packets are damaged", losses.packets_damaged);
    }
    for note in &losses.notes {
        eprintln!("{note}");
    }
}
