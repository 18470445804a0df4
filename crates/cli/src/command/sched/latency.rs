//! `kestrel sched latency`: how long each task ran, and how long it waited for a CPU.

use super::filter::Filter;
use super::reading::{Gaps, Reading};
use super::show::{milliseconds, seconds, short};
use crate::arguments::TraceArgument;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::{Left, Right};
use crate::output::columns::Columns;
use crate::output::json;
use clap::{Args, ValueEnum};
use kestrel_trace::print::counted;
use kestrel_trace::sched::{By, Latencies, Latency, Sort};
use serde::Serialize;
use std::io::Write;

/// Options of `sched latency`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What a row is about
    #[arg(long, value_enum, default_value = "thread")]
    by: ByOption,
    /// Sort rows by these columns, largest first; the next one decides where two are equal
    #[arg(
        short,
        long,
        value_enum,
        value_name = "KEY",
        value_delimiter = ',',
        default_value = "avg,max,switch,runtime"
    )]
    sort: Vec<SortOption>,
    #[command(flatten)]
    filter: Filter,
}

const EXAMPLES: &str = "\
Examples:
  kestrel sched latency                        the trace in ./kestrel.trace, the longest average delay first
  kestrel sched latency -s max my.trace        the longest delay first
  kestrel sched latency --by process -C 0,1    processes, as far as they ran on two CPUs
  kestrel sched latency --format json | jq '.tasks[0]'

A delay is the time from a task's wakeup, or from its preemption, to the moment when it runs, as perf sched latency has it.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ByOption {
    /// Each thread
    Thread,
    /// Each process, its threads together
    Process,
    /// All tasks of one name together, as perf sched latency without -p
    Comm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortOption {
    /// Time run
    Runtime,
    /// Number of switches
    Switch,
    /// Average delay
    Avg,
    /// Maximum delay
    Max,
    /// Thread number, the smallest first
    Pid,
}

#[derive(Serialize)]
struct Document<'a> {
    tasks: &'a [Latency],
    runtime_ns: u64,
    switches: u64,
    /// Source of the run times.
    runtime_from: &'static str,
    #[serde(flatten)]
    gaps: Gaps,
}

/// Runs `kestrel sched latency`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut reading = Reading::open(&options.trace.path, true)?.with_bar(false);
    let mut latencies = Latencies::new(
        reading.present,
        reading.names(),
        options.filter.only(reading.tasks()),
    );
    reading.each(|record| {
        latencies.add(record);
        Ok(())
    })?;
    let sort: Vec<Sort> = options.sort.iter().map(|sort| (*sort).into()).collect();
    let rows = latencies.finish(options.by.into(), &sort);
    let mut out = crate::screen::out();
    match options.format {
        Format::Json => {
            let document = Document {
                runtime_ns: rows.iter().map(|row| row.runtime_ns).sum(),
                switches: rows.iter().map(|row| row.switches).sum(),
                runtime_from: match reading.present.runtime {
                    true => "sched_stat_runtime",
                    false => "sched_switch",
                },
                tasks: &rows,
                gaps: reading.gaps(),
            };
            writeln!(out, "{}", json::line(&document)?)?;
        }
        Format::Text => out.write_all(text(&rows, options.by).as_bytes())?,
    }
    report_unexplained(&rows);
    Ok(reading.finish())
}

fn text(rows: &[Latency], by: ByOption) -> String {
    let mut columns = Columns::new([Left, Right, Right, Right, Right, Right, Right]);
    columns.head(
        "",
        [
            "task",
            "run time ms",
            "switches",
            "avg delay ms",
            "max delay ms",
            "max began s",
            "max ended s",
        ],
    );
    for row in rows {
        let name = match by {
            // Spelled as perf sched latency does, whose output scripts read.
            ByOption::Comm if row.tasks > 1 => format!("{}:({})", row.who.comm.shown(), row.tasks),
            _ => short(&row.who),
        };
        let max = |ns: u64| {
            if row.max_ns > 0 {
                seconds(ns)
            } else {
                String::new()
            }
        };
        columns.row(
            "",
            [
                name,
                milliseconds(row.runtime_ns),
                row.switches.to_string(),
                milliseconds(row.average_ns),
                milliseconds(row.max_ns),
                max(row.max_began_ns),
                max(row.max_ended_ns),
            ],
        );
    }
    let runtime = rows.iter().map(|row| row.runtime_ns).sum();
    let switches: u64 = rows.iter().map(|row| row.switches).sum();
    columns.row(
        "",
        [
            "total".to_owned(),
            milliseconds(runtime),
            switches.to_string(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ],
    );
    columns.text()
}

/// Says on stderr how often a task came to a CPU for no reason that is in the trace.
fn report_unexplained(rows: &[Latency]) {
    let unexplained: u64 = rows.iter().map(|row| row.unexplained).sum();
    if unexplained > 0 {
        eprintln!(
            "{} without a delay: what woke the task is not in the trace",
            counted(unexplained, "switch")
        );
    }
}

impl From<ByOption> for By {
    fn from(by: ByOption) -> Self {
        match by {
            ByOption::Thread => Self::Thread,
            ByOption::Process => Self::Process,
            ByOption::Comm => Self::Comm,
        }
    }
}

impl From<SortOption> for Sort {
    fn from(sort: SortOption) -> Self {
        match sort {
            SortOption::Runtime => Self::Runtime,
            SortOption::Switch => Self::Switch,
            SortOption::Avg => Self::Avg,
            SortOption::Max => Self::Max,
            SortOption::Pid => Self::Pid,
        }
    }
}
