//! `kestrel print`: a recorded trace as lines, in order of time.

use crate::arguments::TraceArgument;
use crate::calls;
use crate::exit::{Exit, Failure};
use crate::filter;
use crate::opening;
use crate::output::losses::report_read;
use crate::progress;
use crate::stacks::with_lines;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::{self, Calls, Layout, Style, Times};
use kestrel_trace::record::Record;
use std::io::IsTerminal;

/// Options of `print`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats())]
    format: String,
    /// Print only the records of this buffer
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,
    /// With stacks of processes: show inlined functions and source lines, from binaries that are the same as when they were recorded
    #[arg(long)]
    lines: bool,
    /// What times are counted from
    #[arg(long, value_name = "FROM", value_enum, default_value = "mono")]
    time: Time,
    /// Times with nine decimals
    #[arg(long)]
    ns: bool,
    /// System calls as strace shows them, a line for each: all that were recorded, or a SET as `trace` takes it. Recordings of `record --syscalls` are shown so
    /// without it
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true, default_missing_value = calls::ALL)]
    syscalls: Option<String>,
    #[command(flatten)]
    only: calls::Only,
    #[command(flatten)]
    between: calls::Between,
    /// Each record on a line of its own, entries and returns of system calls, too
    #[arg(long, conflicts_with_all = ["syscalls", "failed_only", "slower_than", "signal", "no_exits"])]
    records: bool,
    #[command(flatten)]
    filter: filter::Options,
}

/// Origin of printed times.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Time {
    /// The machine's start, as the kernel counts it
    Mono,
    /// 1970; lines have the time of day
    Wall,
    /// The trace's first record
    Start,
    /// The record printed before
    Delta,
}

const EXAMPLES: &str = "\
Examples:
  kestrel print                                           the trace in ./kestrel.trace
  kestrel print my.trace | less
  kestrel print --where 'prev_state == 0 && prev_prio < 120' -e sched_switch
  kestrel print --comm 'bash,sh*' --cpu 0-3,5 --from 1.5 --to +0.25 --time delta
  kestrel print --syscalls=%file --failed-only            system calls, as strace shows them
  kestrel print --format csv > events.csv                 a column for each field, for spreadsheets and data frames
  kestrel print --format json | jq -r 'select(.event == \"sched:sched_switch\") | .time'

Losses are reported on stderr. The same directory opens in babeltrace2 and Trace Compass (Common Trace Format 1.8); a compressed one after `kestrel export --to ctf`.";

/// The formats there are, as an option's values.
fn formats() -> PossibleValuesParser {
    let value = |format: &export::Format| PossibleValue::new(format.name).help(format.about);
    PossibleValuesParser::new(export::FORMATS.iter().map(value))
}

/// Runs `kestrel print`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut trace = opening::open(&options.trace.path)?;
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
            format!("{} has no buffer {buffer}", options.trace.path.display()),
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
    let mut choice = options.filter.choose(&mut trace, false)?;
    let style = Style {
        nanoseconds: options.ns,
        times: match options.time {
            Time::Mono => Times::Monotonic,
            Time::Wall => wall(&trace, choice.background.begin_ns),
            Time::Start => Times::Start {
                begin_ns: choice.background.begin_ns,
            },
            Time::Delta => Times::Delta,
        },
    };
    let format = export::format(&options.format).unwrap_or(&export::FORMATS[0]);
    let mut as_calls = as_calls(options, &trace, format, style)?;
    let symbols = match options.lines {
        true => with_lines(trace.symbols),
        false => trace.symbols,
    };
    let mut export = (format.new)(style, symbols, trace.processes);
    let (mut stdout, name) = (crate::screen::out(), "standard output");
    let mut wanted = |record: &Record<'_>| choice.wants(record);
    let reader = &mut trace.reader;
    let records = match &mut as_calls {
        None => export::chosen(reader, &mut wanted, export.as_mut(), &mut stdout, name)?,
        Some(calls) => {
            // Records before --from say what descriptors mean.
            reader.within(0..=u64::MAX);
            export::as_calls(reader, &mut wanted, (calls, export.as_mut()), &mut stdout, name)?
        }
    };
    let whole = report_read(&trace.reader, trace.summary.as_ref());
    if records == 0 {
        return Ok(filter::none_found(
            &options.trace.path,
            options.filter.are_given(),
        ));
    }
    Ok(whole)
}

/// Times of day. Of a recording without a date they are times of its own clock, with a warning.
fn wall(trace: &Trace, begin_ns: u64) -> Times {
    let clock = trace.reader.info().clock;
    if clock.date_ns(begin_ns).is_none() {
        eprintln!("the recording does not say the time of day: times are those of its clock");
        return Times::Monotonic;
    }
    Times::Wall {
        offset_ns: clock.ns(),
    }
}

/// Calls as lines, where they are asked for or were recorded as such, and the format has lines of calls.
fn as_calls(
    options: &Options,
    trace: &Trace,
    format: &export::Format,
    style: Style,
) -> Result<Option<Calls>, Failure> {
    let asked = options.syscalls.is_some() || options.only.is_given() || options.between.is_given();
    let layout = match format.name {
        "text" => Layout::Lines,
        "json" => Layout::Json,
        name if asked => {
            let failure = Failure::new(Exit::Usage, format!("{name} has no lines of system calls"));
            return Err(failure
                .hint("--format text and json have; without --syscalls the records of calls are written"));
        }
        _ => return Ok(None),
    };
    if options.records || !asked && trace.calls.is_none() {
        return Ok(None);
    }
    let set = options.syscalls.as_deref();
    let mut calls = calls::followed(trace, &options.trace.path, set, (layout, style))?;
    options.between.choose(calls.shown_mut());
    options.only.choose(calls.shown_mut());
    Ok(Some(calls))
}
