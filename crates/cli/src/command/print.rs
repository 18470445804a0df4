//! `kestrel print`: a recorded trace as lines, in order of time.

use crate::arguments::default_trace;
use crate::exit::{Exit, Failure};
use crate::output::losses::report_absent;
use crate::progress;
use crate::stacks::with_lines;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::read::Losses;
use kestrel_trace::export::{self, Style};
use kestrel_trace::print::{are, counted, shown};
use kestrel_trace::summary::{UNFINISHED, lost_lines};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Options of `print`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The trace directory
    #[arg(value_name = "DIR", default_value_os_t = default_trace())]
    trace: PathBuf,
    /// The format that records are written in
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats())]
    format: String,
    /// Print only the records of this buffer
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,
    /// With stacks of processes: show inlined functions and source lines, from binaries that are the same as when they were recorded
    #[arg(long)]
    lines: bool,
    /// Times with nine decimals
    #[arg(long)]
    ns: bool,
}

const EXAMPLES: &str = "\
Examples:
  kestrel print                                           the trace in ./kestrel.trace
  kestrel print my.trace | less
  kestrel print --format csv > events.csv                 a column for each field, for spreadsheets and data frames
  kestrel print --format json | jq -r 'select(.event == \"sched:sched_switch\") | .time'

Losses are reported on stderr. The same directory opens in babeltrace2 and Trace Compass (Common Trace Format 1.8).";

/// The formats there are, as an option's values.
fn formats() -> PossibleValuesParser {
    let value = |format: &export::Format| PossibleValue::new(format.name).help(format.about);
    PossibleValuesParser::new(export::FORMATS.iter().map(value))
}

/// Prints.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut trace = directory::open(&options.trace)?;
    if let Some(buffer) = &options.buffer
        && trace
            .reader
            .info()
            .buffers
            .iter()
            .all(|known| known.name != *buffer)
    {
        let names = trace.reader.info().buffer_names();
        return Err(Failure::new(
            Exit::Failed,
            format!("{} has no buffer {buffer}", options.trace.display()),
        )
        .hint(format!("its buffers are {}", names.join(", "))));
    }
    if let Some(buffer) = &options.buffer {
        trace.reader.only(buffer);
    }
    let total = trace.packets;
    // A bar between lines would only tear them.
    if !std::io::stdout().is_terminal()
        && let Some(mut bar) = progress::bar("printing")
    {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    let style = Style {
        nanoseconds: options.ns,
    };
    let format = export::format(&options.format).unwrap_or(&export::FORMATS[0]);
    let symbols = match options.lines {
        true => with_lines(trace.symbols),
        false => trace.symbols,
    };
    let mut export = (format.new)(style, symbols, trace.processes);
    let mut stdout = crate::screen::out();
    let records = export::all(&mut trace.reader, export.as_mut(), &mut stdout, "standard output")?;
    let lost = trace
        .summary
        .as_ref()
        .map_or(0, kestrel_trace::summary::Summary::lost);
    let unwritten = trace
        .summary
        .as_ref()
        .and_then(|summary| summary.cut_short.as_ref());
    let unwritten = unwritten.map_or(0, |cut| cut.unwritten);
    let frozen = trace.summary.as_ref().and_then(|summary| summary.frozen);
    report_losses(&trace.reader.losses(), lost.saturating_sub(unwritten), frozen);
    let whole = match &trace.summary {
        Some(summary) => report_absent(
            summary.cut_short.as_ref(),
            &trace.reader.absent(summary),
            summary.recorded(),
        ),
        None => {
            eprintln!("{UNFINISHED}");
            Exit::Done
        }
    };
    if records == 0 {
        eprintln!("kestrel: {} holds no events", options.trace.display());
        return Ok(Exit::Failed);
    }
    Ok(whole)
}

/// Reports losses on stderr: standard output has records only.
fn report_losses(losses: &Losses, lost: u64, frozen: Option<u64>) {
    let lost = losses.lost.max(lost);
    for line in lost_lines(lost, frozen) {
        eprintln!("{line}");
    }
    if losses.packets_missing > 0 {
        eprintln!(
            "{} {} missing",
            counted(losses.packets_missing, "packet"),
            are(losses.packets_missing)
        );
    }
    if losses.packets_damaged > 0 {
        eprintln!(
            "{} {} damaged",
            counted(losses.packets_damaged, "packet"),
            are(losses.packets_damaged)
        );
    }
    for note in &losses.notes {
        eprintln!("{}", shown(note));
    }
}
