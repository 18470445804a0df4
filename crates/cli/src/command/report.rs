//! `kestrel report`: a recorded trace as tables and a histogram over time.

use crate::arguments::default_trace;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::losses::report_absent;
use crate::progress;
use crate::stacks::StackOptions;
use crate::style;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use kestrel_trace::analyze::ANALYSES;
use kestrel_trace::ctf::directory;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::report::{self, Report};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Options of `report`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The trace directory
    #[arg(value_name = "DIR", default_value_os_t = default_trace())]
    trace: PathBuf,
    /// How it looks
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also this table; may be repeated
    #[arg(long, value_name = "TABLE", value_parser = tables())]
    also: Vec<String>,
    /// Also the most frequent values of this field
    #[arg(long, value_name = "FIELD")]
    field: Option<String>,
    #[command(flatten)]
    stacks: StackOptions,
}

const EXAMPLES: &str = "\
Examples:
  kestrel report                                          the trace in ./kestrel.trace
  kestrel report --field next_comm                        and the most frequent values of a field
  kestrel report --also threads                           and the threads
  kestrel report -g                                       the call graph of a profile: functions, and what they called
  kestrel report --flame cpu.svg                          the same as a flame graph
  kestrel report --off-cpu --flame off.svg                where threads waited, by `kestrel record -g -e sched:sched_switch -a`
  kestrel report --format json my.trace | jq .events";

/// Columns where the output is no terminal.
const WIDTH: usize = 100;

/// The tables that not every report has, as an option's values.
fn tables() -> PossibleValuesParser {
    let others = ANALYSES.iter().filter(|kind| !kind.usual);
    PossibleValuesParser::new(others.map(|kind| PossibleValue::new(kind.name).help(kind.about)))
}

/// Reports.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut trace = directory::open(&options.trace)?;
    if let Some(field) = &options.field {
        check_field(field, trace.reader.info())?;
    }
    if options.stacks.are_wanted() {
        return options
            .stacks
            .report(&mut trace, &options.trace, options.format, &mut |_| true);
    }
    let total = trace.packets;
    if let Some(mut bar) = progress::bar("counting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    let report = Report::gather(
        &mut trace.reader,
        report::Options {
            processes: trace.processes,
            symbols: trace.symbols,
            summary: trace.summary,
            also: options.also.clone(),
            field: options.field.clone(),
            maps: trace.maps,
            remarks: trace.remarks,
        },
    )?;
    // The bar goes before the tables come.
    drop(trace.reader);
    let mut stdout = crate::screen::out();
    match options.format {
        Format::Json => {
            let text = serde_json::to_string(&report)
                .map_err(|e| Failure::new(Exit::Internal, format!("cannot write the report as JSON: {e}")))?;
            writeln!(stdout, "{text}")?;
        }
        Format::Text => {
            let colour = style::colour(std::io::stdout().is_terminal());
            write!(stdout, "{}", report::text(&report, width(), colour))?;
            writeln!(stdout, "\nThe trace lies in {}", options.trace.display())?;
        }
    }
    let recorded: u64 = report.counted.iter().flatten().map(|count| count.recorded).sum();
    let whole = report_absent(report.cut_short.as_ref(), &report.absent, recorded);
    if report.records == 0 && report.maps.is_empty() {
        eprintln!("kestrel: {} holds no events", options.trace.display());
        return Ok(Exit::Failed);
    }
    Ok(whole)
}

/// Whether any event of a trace has such a field.
fn check_field(field: &str, info: &TraceInfo) -> Result<(), Failure> {
    let fields = info.events.iter().flat_map(|event| event.layout.fields());
    let names: BTreeSet<&str> = fields.map(|field| field.name.as_str()).collect();
    if names.contains(field) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Usage, format!("no event of this trace has a field {field}"));
    let names: Vec<&str> = names.into_iter().collect();
    Err(match names.as_slice() {
        [] => failure.hint("its events have no fields at all"),
        names => failure.hint(format!("its fields are {}", names.join(", "))),
    })
}

fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns
        .or_else(|| terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)))
        .unwrap_or(WIDTH)
}
