//! `kestrel report`: a recorded trace as tables and a histogram over time.

use crate::arguments::default_trace;
use crate::exit::{Exit, Failure};
use crate::output::losses::report_absent;
use crate::output::{Format, calls};
use crate::progress;
use crate::style;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use kestrel::arch;
use kestrel_trace::analyze::ANALYSES;
use kestrel_trace::calls::{Pairing, Reader, Signature, Signatures, Summary};
use kestrel_trace::ctf::directory::{self, Trace};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::print::{thousands, were};
use kestrel_trace::process::Learner;
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
    /// Count system calls instead, as strace -c does: of any recording with syscalls:* or raw_syscalls:* events
    #[arg(long, conflicts_with_all = ["also", "field"])]
    syscalls: bool,
    /// What the table of --syscalls is about
    #[arg(long, value_enum, requires = "syscalls", default_value = "call")]
    by: calls::By,
    /// Also this table; may be repeated
    #[arg(long, value_name = "TABLE", value_parser = tables())]
    also: Vec<String>,
    /// Also the most frequent values of this field
    #[arg(long, value_name = "FIELD")]
    field: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel report                                          the trace in ./kestrel.trace
  kestrel report --field next_comm                        and the most frequent values of a field
  kestrel report --also threads                           and the threads
  kestrel report --syscalls                               system calls, as strace -c counts them
  kestrel report --syscalls --by thread                   of each thread, as perf trace -s does
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
    if options.syscalls {
        return syscalls(trace, options);
    }
    if let Some(field) = &options.field {
        check_field(field, trace.reader.info())?;
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

/// Reports system calls.
fn syscalls(mut trace: Trace, options: &Options) -> Result<Exit, Failure> {
    if !trace.reader.info().events.iter().any(Reader::is_of_calls) {
        let failure = Failure::new(
            Exit::Failed,
            format!("{} holds no events of system calls", options.trace.display()),
        );
        return Err(failure.hint("`kestrel record -e 'raw_syscalls:*' -- COMMAND` records them; `kestrel trace --syscalls --summary -- COMMAND` counts them at once"));
    }
    let total = trace.packets;
    if let Some(mut bar) = progress::bar("counting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    let mut reader = Reader::new(signatures());
    let (mut pairing, mut summary) = (Pairing::default(), Summary::new(options.by.into()));
    let (mut learner, mut processes) = (Learner::default(), trace.processes);
    while let Some(record) = trace.reader.next()? {
        learner.learn(&record, &mut processes);
        if let Some(moment) = reader.read(&record) {
            pairing.add((record.pid, record.tid), record.time_ns, moment, &mut |call| {
                summary.add(&call)
            });
        }
    }
    pairing.finish(&mut |call| summary.add(&call));
    let groups = summary.finish(&|tid, pid| processes.name(tid, pid).map(str::to_owned));
    calls::print(&groups, options.format)?;
    let (absent, cut_short) = match &trace.summary {
        Some(summary) => (trace.reader.absent(summary), summary.cut_short.clone()),
        None => (Vec::new(), None),
    };
    let counted = trace.summary.iter().flat_map(|summary| &summary.events);
    let lost: u64 = counted.clone().map(|count| count.lost + count.overwritten).sum();
    let lost = lost.max(trace.reader.losses().lost);
    if lost > 0 {
        eprintln!(
            "{} of this recording {} lost: the counts are too low",
            thousands(lost),
            were(lost)
        );
    }
    let recorded = counted.map(|count| count.recorded).sum();
    Ok(report_absent(cut_short.as_ref(), &absent, recorded))
}

/// The calls of this architecture by their numbers, as far as names.
fn signatures() -> Signatures {
    let mut signatures = Signatures::default();
    for number in 0..=arch::HIGHEST_SYSCALL {
        if let Some(name) = (arch::current().syscall_name)(number) {
            signatures.insert(u64::from(number), Signature::new(name, []));
        }
    }
    signatures
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
