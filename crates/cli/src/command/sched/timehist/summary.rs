//! The sums behind the lines of `sched timehist`: a row for each task, idle CPUs, totals.

use super::super::reading::Gaps;
use super::super::show::{long, milliseconds};
use super::Options;
use crate::exit::Failure;
use crate::output::Format;
use crate::output::columns::Column::{Left, Right};
use crate::output::columns::Columns;
use crate::output::json;
use kestrel_trace::print::counted;
use kestrel_trace::sched::{Summary, TaskSummary};
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(flatten)]
    gaps: Gaps,
}

/// Writes the sums.
pub(super) fn write(
    options: &Options,
    summary: &Summary,
    gaps: Gaps,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if options.format == Format::Json {
        let document = Document {
            kind: "summary",
            summary,
            gaps,
        };
        writeln!(out, "{}", json::line(&document)?)?;
        return Ok(());
    }
    if options.with_summary {
        writeln!(out)?;
    }
    let table = match options.state && !options.idle {
        true => waits(&summary.tasks),
        false => runs(&summary.tasks, options.idle),
    };
    out.write_all(table.as_bytes())?;
    writeln!(out)?;
    for idle in &summary.idle {
        let (cpu, ns) = (idle.cpu, milliseconds(idle.idle_ns));
        writeln!(out, "CPU {cpu:2} idle for {ns:>12} ms ({:.2} %)", idle.percent)?;
    }
    writeln!(out, "{}", total(summary, options.idle))?;
    Ok(())
}

/// The last line; with `idle`, what the table has is the time after tasks, not theirs.
fn total(summary: &Summary, idle: bool) -> String {
    let tasks = counted(summary.tasks.len() as u64, "task");
    let (run, span) = (milliseconds(summary.run_ns), milliseconds(summary.span_ns));
    match idle {
        false => {
            let runs = counted(summary.switches, "run");
            format!("{tasks} in {runs}, {run} ms run, within {span} ms")
        }
        true => {
            let times = counted(summary.switches, "time");
            format!("{run} ms idle after {tasks}, {times}, within {span} ms")
        }
    }
}

/// Number and time of tasks' runs; with `idle`, the time that their CPU was idle after them.
fn runs(tasks: &[TaskSummary], idle: bool) -> String {
    let mut columns = Columns::new([Left, Right, Right, Right, Right, Right, Right, Right]);
    let names = match idle {
        false => ["sched-in", "run time", "min run", "avg run", "max run"],
        true => ["sched-out", "idle time", "min idle", "avg idle", "max idle"],
    };
    let [count, total, min, average, max] = names;
    columns.head(
        "",
        ["task", count, total, min, average, max, "stddev %", "migrations"],
    );
    for task in tasks {
        let run = &task.run;
        columns.row(
            "",
            [
                name(task),
                run.count.to_string(),
                milliseconds(run.total_ns),
                milliseconds(run.min_ns),
                milliseconds(run.average_ns),
                milliseconds(run.max_ns),
                format!("{:.2}", run.stddev_percent),
                task.migrations.to_string(),
            ],
        );
    }
    columns.text()
}

/// Table of what tasks waited for.
fn waits(tasks: &[TaskSummary]) -> String {
    let mut columns = Columns::new([Left, Right, Right, Right, Right, Right, Right]);
    columns.head(
        "",
        [
            "task", "sched-in", "run time", "sleep", "iowait", "preempt", "delay",
        ],
    );
    for task in tasks {
        columns.row(
            "",
            [
                name(task),
                task.run.count.to_string(),
                milliseconds(task.run.total_ns),
                milliseconds(task.sleep_ns),
                milliseconds(task.iowait_ns),
                milliseconds(task.preempt_ns),
                milliseconds(task.delay_ns),
            ],
        );
    }
    columns.text()
}

fn name(task: &TaskSummary) -> String {
    let ended = if task.ended { " (ended)" } else { "" };
    format!("{}{ended}", long(&task.who))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_called_run_time() {
        let summary = Summary {
            switches: 3,
            run_ns: 2_000_000,
            span_ns: 5_000_000,
            ..Summary::default()
        };
        assert_eq!(
            total(&summary, false),
            "0 tasks in 3 runs, 2.000 ms run, within 5.000 ms"
        );
        let idle = "2.000 ms idle after 0 tasks, 3 times, within 5.000 ms";
        assert_eq!(total(&summary, true), idle);
    }
}
