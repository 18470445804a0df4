//! `kestrel report`: a recorded trace as tables and a histogram over time.

mod html;
mod program;
mod question;
mod syscalls;

use crate::arguments::TraceArgument;
use crate::calls;
use crate::exit::{Exit, Failure};
use crate::explore::explore;
use crate::filter;
use crate::opening::{self, say_remarks};
use crate::output::Format;
use crate::output::losses::report_absent;
use crate::progress;
use crate::stacks::StackOptions;
use crate::style;
use crate::terminal;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgGroup, Args};
use kestrel_query::listed_fields;
use kestrel_trace::analyze::ANALYSES;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::record::Record;
use kestrel_trace::report::{self, Report};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Options of `report`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("asked").args(["by", "latency"]).multiple(true))]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// Output format [default: text]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print text on a terminal, too, instead of the full-screen explorer of tables, stacks and records (`?` shows its keys); options that name a format, a table or an output do the same
    #[arg(long, alias = "stdio")]
    plain: bool,
    /// Count system calls instead, as strace -c does: all, or a SET as `trace` takes it, of recordings of `record --syscalls` and of any with syscalls:* or
    /// raw_syscalls:* events
    #[arg(
        long,
        value_name = "SET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = calls::ALL,
        conflicts_with_all = ["also", "field"]
    )]
    syscalls: Option<String>,
    /// Also this table; may be repeated
    #[arg(long, value_name = "TABLE", value_parser = tables())]
    also: Vec<String>,
    /// Also the most frequent values of this field
    #[arg(long, value_name = "FIELD")]
    field: Option<String>,
    #[command(flatten)]
    stacks: StackOptions,
    /// Count records for each value of these expressions instead of the usual tables: fields, `comm`, `pid`, `tid`, `thread`, `process`, `cpu`, `event`; with --syscalls `call`, `thread` or `process`
    #[arg(long, value_name = "EXPR,…", conflicts_with_all = ["also", "field"])]
    by: Option<String>,
    /// In each group of --by, the sum, mean, least, greatest, median and 99th percentile of this expression
    #[arg(long, value_name = "EXPR", requires = "by", conflicts_with = "latency")]
    value: Option<String>,
    /// Measure the time from one event to another of the same thread, or of the same KEY; may be repeated; one pattern (`*:*`) pairs entry and exit events by name; --by splits
    #[arg(long, value_name = "BEGIN,END[,KEY]", conflicts_with_all = ["also", "field"])]
    latency: Vec<String>,
    /// The column that --by and --latency sort by; `-` before it turns the order round
    #[arg(long, value_name = "COLUMN", requires = "asked", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Show only the first rows; the others are summed up
    #[arg(long, value_name = "ROWS", requires = "asked")]
    limit: Option<usize>,
    /// Write one page that a browser opens without a network: time lines of CPUs and threads, what they waited for, system calls, tables of any range
    #[arg(long, value_name = "FILE", conflicts_with_all = ["also", "field", "syscalls", "by", "latency", "call_graph", "inverted", "flame", "folded", "off_cpu"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    filter: filter::Options,
}

const EXAMPLES: &str = "\
Examples:
  kestrel report                                          the trace in ./kestrel.trace: on a terminal to look around in, `?` shows the keys
  kestrel report --plain                                  the same tables as text
  kestrel report --field next_comm                        and the most frequent values of a field
  kestrel report --also threads                           and the threads
  kestrel report -g                                       the call graph of a profile: functions, and what they called
  kestrel report --flame cpu.svg                          the same as a flame graph
  kestrel report --off-cpu --flame off.svg                where threads waited, by `kestrel record -g -e sched:sched_switch -a`
  kestrel report --where 'bytes_req > 4096' -e kmalloc    of some records only
  kestrel report --by comm,args.target_cpu --limit 10     counts by what expressions are
  kestrel report --by comm --value 'ret > 0 ? ret : 0' -e 'sys_exit_read' --sort sum
  kestrel report --latency 'syscalls:*' --by comm         how long system calls took
  kestrel report --latency 'block:*' --by dev             and requests of block devices
  kestrel report --latency sched:sched_waking,sched:sched_switch,args.pid=next_pid
  kestrel report -e 'sched:sched_switch { @[args.prev_comm] = count() }'   whatever a program asks
  kestrel report --syscalls                               system calls, as strace -c counts them
  kestrel report --syscalls --by thread                   of each thread, as perf trace -s does
  kestrel report --html trace.html                        one page for a browser: time lines, zoom, search, tables of a range
  kestrel report --format json my.trace | jq .events";

/// Columns where the output is no terminal.
const WIDTH: usize = 100;

/// The tables that not every report has, as an option's values.
fn tables() -> PossibleValuesParser {
    let others = ANALYSES.iter().filter(|kind| !kind.usual);
    PossibleValuesParser::new(others.map(|kind| PossibleValue::new(kind.name).help(kind.about)))
}

impl Options {
    fn format(&self) -> Format {
        self.format.unwrap_or(Format::Text)
    }

    /// Whether the interactive view opens: no option asks for text, and standard input and output are a terminal.
    fn is_interactive(&self) -> bool {
        let names_output = self.plain
            || self.format.is_some()
            || self.html.is_some()
            || self.syscalls.is_some()
            || !self.also.is_empty()
            || self.field.is_some()
            || self.by.is_some()
            || !self.latency.is_empty()
            || self.stacks.are_wanted();
        !names_output && terminal::is_possible() && std::io::stdin().is_terminal()
    }
}

/// Runs `kestrel report`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut trace = opening::open_in_silence(&options.trace.path)?;
    let asked = options.by.is_some() || !options.latency.is_empty();
    let others = [
        options.filter.program().is_some(),
        options.syscalls.is_some(),
        options.html.is_some(),
        options.stacks.are_wanted(),
        asked,
    ];
    // The usual report has them among its own notes.
    if others.contains(&true) {
        say_remarks(&mut trace);
    }
    if let Some(text) = options.filter.program() {
        let json = options.format() == Format::Json;
        return program::answer(&options.filter, json, &text, trace);
    }
    if let Some(field) = &options.field {
        check_field(field, trace.reader.info())?;
    }
    let total = trace.packets;
    let mut choice = options.filter.choose(&mut trace, asked)?;
    if let Some(set) = &options.syscalls {
        return syscalls::report(trace, set, options, &mut choice);
    }
    // A trace without packets has nothing to show: one line says so, and no view opens.
    if trace.packets > 0 && options.is_interactive() {
        return explore(trace, &options.trace.path, choice, options.stacks.wants_lines());
    }
    if let Some(file) = &options.html {
        if let Some(mut bar) = progress::bar("reading") {
            trace.reader.watch(Box::new(move |done| bar(done, total)));
        }
        let wanted = html::HtmlOptions {
            file,
            trace: &options.trace.path,
            lines: options.stacks.wants_lines(),
            filtered: options.filter.are_given(),
        };
        return html::write(&wanted, trace, &mut choice);
    }
    if options.stacks.are_wanted() {
        if options.stacks.weigh_time() {
            // The stack of a switch is that of the thread which leaves.
            choice.leave_out_others();
        }
        let wanted = &mut |record: &Record<'_>| choice.wants(record);
        return options
            .stacks
            .report(&mut trace, &options.trace.path, options.format(), wanted);
    }
    if let Some(mut bar) = progress::bar("counting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    if asked {
        return question::answer(options, trace, &mut choice);
    }
    if options.field.is_none() && !options.filter.are_given() {
        trace.reader.heads_alone();
    }
    let report = Report::of_chosen(
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
        &mut |record| choice.wants(record),
    )?;
    // The bar goes before the tables come.
    drop(trace.reader);
    let mut stdout = crate::screen::out();
    match options.format() {
        Format::Json => {
            let text = serde_json::to_string(&report)
                .map_err(|e| Failure::new(Exit::Internal, format!("cannot write the report as JSON: {e}")))?;
            writeln!(stdout, "{text}")?;
        }
        Format::Text => {
            let colour = style::colour(std::io::stdout().is_terminal());
            write!(stdout, "{}", report::text(&report, width(), colour))?;
            writeln!(stdout, "\nThe trace lies in {}", options.trace.path.display())?;
        }
    }
    let recorded: u64 = report.counted.iter().flatten().map(|count| count.recorded).sum();
    let whole = report_absent(report.cut_short.as_ref(), &report.absent, recorded);
    if report.records == 0 && report.maps.is_empty() {
        return Ok(filter::none_found(
            &options.trace.path,
            options.filter.are_given(),
        ));
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
    Err(match names.is_empty() {
        true => failure.hint("its events have no fields at all"),
        false => failure.hint(listed_fields(&names)),
    })
}

fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns
        .or_else(|| terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)))
        .unwrap_or(WIDTH)
}
