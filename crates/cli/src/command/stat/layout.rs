//! Rows and footers as perf stat lays them out: text for people, columns behind a separator, JSON.

use super::figures::{Figure, Number, Run, deviation};
use kestrel::stat::{Event, Part, Scale};
use kestrel_trace::print::{self, thousands};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;

/// Layout of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// perf's table.
    Text,
    /// perf's columns, with this between them.
    Columns(String),
    /// An object per row.
    Json,
}

/// Time that one run or several took.
#[derive(Clone, Debug)]
pub(super) struct RunTimes<'a> {
    pub(super) runs: &'a [Run],
    /// In user space and in the kernel, of a command that ran once.
    pub(super) used: Option<(Duration, Duration)>,
}

const NOT_SUPPORTED: &str = "<not supported>";
const NOT_COUNTED: &str = "<not counted>";

/// Whether an event counts nanoseconds, which are shown as milliseconds.
fn counts_time(event: &Event) -> bool {
    event
        .counter
        .as_ref()
        .is_some_and(|named| named.counter.counts_time)
}

/// Scale of the shown counts, if not 1.
fn scale(event: &Event) -> Option<&Scale> {
    event.counter.as_ref().and_then(|named| named.scale.as_ref())
}

fn unit(event: &Event) -> &str {
    match scale(event) {
        Some(scale) => &scale.unit,
        None if counts_time(event) => "msec",
        None => "",
    }
}

/// A number; `group` puts the digits of counts in groups.
fn number(figure: &Figure<'_>, group: bool) -> String {
    let count = |value: u64| match group {
        true => thousands(value),
        false => value.to_string(),
    };
    match figure.number {
        Number::NotSupported => NOT_SUPPORTED.to_owned(),
        Number::NotCounted => NOT_COUNTED.to_owned(),
        Number::Exact(value) if scale(figure.event).is_some() => by_scale(figure.event, value as f64),
        Number::About(value) if scale(figure.event).is_some() => by_scale(figure.event, value),
        Number::Exact(value) if counts_time(figure.event) => milliseconds(value as f64, group),
        Number::About(value) if counts_time(figure.event) => milliseconds(value, group),
        Number::Exact(value) => count(value),
        Number::About(value) => count(value.round() as u64),
    }
}

/// With two decimals, as perf has it.
fn by_scale(event: &Event, value: f64) -> String {
    format!("{:.2}", value * scale(event).map_or(1.0, |scale| scale.by))
}

fn milliseconds(ns: f64, group: bool) -> String {
    let hundredths = (ns / 1e4).round() as u64;
    let whole = match group {
        true => thousands(hundredths / 100),
        false => (hundredths / 100).to_string(),
    };
    format!("{whole}.{:02}", hundredths % 100)
}

impl Layout {
    /// Title line above all rows.
    pub(super) fn title(&self, of: &str, runs: usize) -> String {
        match self {
            Self::Text if runs > 1 => format!("\n Performance counter stats for {of} ({runs} runs):\n\n"),
            Self::Text => format!("\n Performance counter stats for {of}:\n\n"),
            _ => String::new(),
        }
    }

    /// Title line above the rows of intervals.
    pub(super) fn interval_title(&self) -> &'static str {
        match self {
            Self::Text => "#           time             counts unit events\n",
            _ => "",
        }
    }

    /// Rows; those of an interval with the time since the beginning at its end.
    pub(super) fn rows(&self, figures: &[Figure<'_>], at: Option<u64>) -> String {
        let width = figures.iter().map(|it| label_width(it.part)).max().unwrap_or(0);
        let mut out = String::new();
        for figure in figures {
            out += &match self {
                Self::Text => text(figure, at, width),
                Self::Columns(separator) => columns(figure, at, separator),
                Self::Json => serde_json::to_value(object(figure, at))
                    .unwrap_or_default()
                    .to_string(),
            };
            out.push('\n');
        }
        out
    }

    /// Footer below the rows.
    pub(super) fn footer(&self, taken: &RunTimes<'_>) -> String {
        match self {
            Self::Text => footer(taken),
            _ => String::new(),
        }
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// The width of a label of values; those of CPUs and threads have perf's.
fn label_width(part: &Part) -> usize {
    match part {
        Part::By(values) => print::columns(&values.join(",")).min(60),
        _ => 0,
    }
}

fn text(figure: &Figure<'_>, at: Option<u64>, width: usize) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    if let Some(at) = at {
        let _ = write!(line, "{:>16} ", seconds(at));
    }
    match figure.part {
        Part::All => {}
        Part::Cpu(cpu) => _ = write!(line, "{:<10} ", format!("CPU{cpu}")),
        Part::Thread { comm, tid } => _ = write!(line, "{comm:>16}-{tid:<8} "),
        Part::By(values) => {
            let values = values.join(",");
            let _ = write!(line, "{values}{} ", print::fill(&values, width));
        }
    }
    let _ = write!(
        line,
        "{:>18} {:<4} {:<32}",
        number(figure, true),
        unit(figure.event),
        figure.event.name
    );
    let derived = figure.derived.as_ref().map_or(String::new(), |derived| {
        // A percentage stands close to its sign.
        let space = if derived.unit.starts_with('%') { "" } else { " " };
        let share = if space.is_empty() { 2 } else { 3 };
        format!(" # {:>8.share$}{space}{}", derived.value, derived.unit)
    });
    let _ = write!(line, "{derived:<36}");
    if let Some(noise) = figure.noise.filter(|noise| *noise > 0.0) {
        let _ = write!(line, "  ( +-{noise:>6.2}% )");
    }
    if figure.percent < 100.0 {
        let _ = write!(line, "  ({:.1}%)", figure.percent);
    }
    line.trim_end().to_owned()
}

/// A field of columns, in quotes where it has the separator in it.
fn field(text: &str, separator: &str) -> String {
    match !separator.is_empty() && text.contains(separator) || text.contains('"') && separator == "," {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn columns(figure: &Figure<'_>, at: Option<u64>, separator: &str) -> String {
    let mut fields: Vec<String> = Vec::new();
    if let Some(at) = at {
        fields.push(format!("{:>16}", seconds(at)));
    }
    match figure.part {
        Part::All => {}
        Part::Cpu(cpu) => fields.push(format!("CPU{cpu}")),
        Part::Thread { comm, tid } => fields.push(field(&format!("{comm}-{tid}"), separator)),
        Part::By(values) => fields.extend(values.iter().map(|value| field(value, separator))),
    }
    fields.extend([
        number(figure, false),
        unit(figure.event).to_owned(),
        field(&figure.event.name, separator),
    ]);
    fields.extend(figure.noise.map(|noise| format!("{noise:.2}%")));
    fields.extend([figure.running.to_string(), format!("{:.2}", figure.percent)]);
    match &figure.derived {
        Some(derived) => fields.extend([format!("{:.3}", derived.value), field(&derived.unit, separator)]),
        None => fields.extend([String::new(), String::new()]),
    }
    fields.join(separator)
}

/// A row as an object: perf's keys, numbers as numbers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct RowJson<'a> {
    /// Seconds since the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a [String]>,
    counter_value: Value,
    unit: &'a str,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variance: Option<f64>,
    event_runtime: u64,
    pcnt_running: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_unit: Option<&'a str>,
}

fn object<'a>(figure: &'a Figure<'_>, at: Option<u64>) -> RowJson<'a> {
    let scale = match scale(figure.event) {
        Some(scale) => 1.0 / scale.by,
        None if counts_time(figure.event) => 1e6,
        None => 1.0,
    };
    let row = RowJson {
        interval: at.map(|at| at as f64 / 1e9),
        counter_value: match figure.number {
            Number::NotSupported => NOT_SUPPORTED.into(),
            Number::NotCounted => NOT_COUNTED.into(),
            // As a float it would lose digits from 2^53 on.
            Number::Exact(value) if scale == 1.0 => value.into(),
            Number::Exact(value) => (value as f64 / scale).into(),
            Number::About(value) => (value / scale).into(),
        },
        unit: unit(figure.event),
        event: &figure.event.name,
        variance: figure.noise,
        event_runtime: figure.running,
        pcnt_running: figure.percent,
        metric_value: figure.derived.as_ref().map(|derived| derived.value),
        metric_unit: figure.derived.as_ref().map(|derived| derived.unit.as_str()),
        ..RowJson::default()
    };
    match figure.part {
        Part::All => row,
        Part::Cpu(cpu) => RowJson {
            cpu: Some(cpu.to_string()),
            ..row
        },
        Part::Thread { comm, tid } => RowJson {
            thread: Some(format!("{comm}-{tid}")),
            comm: Some(comm),
            tid: Some(*tid),
            ..row
        },
        Part::By(values) => RowJson {
            by: Some(values),
            ..row
        },
    }
}

fn footer(taken: &RunTimes<'_>) -> String {
    let times: Vec<f64> = taken.runs.iter().map(|run| run.elapsed as f64 / 1e9).collect();
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let mut out = String::from("\n");
    // Writing to a string cannot fail.
    if times.len() > 1 {
        let deviation = deviation(&times, times.len());
        let percent = if mean > 0.0 { deviation * 100.0 / mean } else { 0.0 };
        let _ = writeln!(
            out,
            "{mean:>18.6} +- {deviation:.6} seconds time elapsed  ( +-{percent:>6.2}% )"
        );
    } else {
        let _ = writeln!(out, " {mean:>17.9} seconds time elapsed");
    }
    if let Some((user, system)) = taken.used.filter(|_| times.len() == 1) {
        let _ = write!(
            out,
            "\n {:>17.9} seconds user\n {:>17.9} seconds sys\n",
            user.as_secs_f64(),
            system.as_secs_f64()
        );
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::super::figures::{figures, tests};
    use super::*;
    use kestrel::stat::{Amount, Reading};
    use serde_json::json;

    fn shown(layout: &Layout, names: &[&str], runs: &[Run], at: Option<u64>) -> String {
        let events = tests::events(names);
        layout.rows(&figures(&events, runs), at)
    }

    const NAMES: &[&str] = &["task-clock", "context-switches", "cycles", "sched:sched_switch"];

    fn runs() -> Vec<Run> {
        let mut one = tests::run(&[1_234_567_890, 12_345, 0, 7]);
        one.counts[2].amount = Amount::NotSupported;
        vec![one]
    }

    #[test]
    fn text_is_perfs() {
        assert_eq!(
            shown(&Layout::Text, NAMES, &runs(), None),
            "          1,234.57 msec task-clock                       #    0.617 CPUs utilized\n\
             \x20           12,345      context-switches                 #    9.999 K/sec\n\
             \x20  <not supported>      cycles\n\
             \x20                7      sched:sched_switch               #    5.670 /sec\n"
        );
        let at = shown(&Layout::Text, &["cs"], &[tests::run(&[3])], Some(1_000_000_007));
        assert_eq!(at, "     1.000000007                  3      cs\n");
    }

    #[test]
    fn columns_are_perfs() {
        assert_eq!(
            shown(&Layout::Columns(",".to_owned()), NAMES, &runs(), None),
            "1234.57,msec,task-clock,1000,100.00,0.617,CPUs utilized\n\
             12345,,context-switches,1000,100.00,9.999,K/sec\n\
             <not supported>,,cycles,0,100.00,,\n\
             7,,sched:sched_switch,1000,100.00,5.670,/sec\n"
        );
        let many = [tests::run(&[3]), tests::run(&[3])];
        let shown = shown(&Layout::Columns(";".to_owned()), &["cs"], &many, Some(5));
        assert_eq!(shown, "     0.000000005;3;;cs;0.00%;1000;100.00;;\n");
    }

    #[test]
    fn parts_stand_in_front() {
        let events = tests::events(&["cs"]);
        let line = |part: Part, layout: &Layout| {
            let mut run = tests::run(&[3]);
            run.counts[0].part = part;
            let runs = [run];
            layout.rows(&figures(&events, &runs), None)
        };
        let columns = Layout::Columns(",".to_owned());
        assert_eq!(
            line(Part::Cpu(1), &Layout::Text),
            "CPU1                        3      cs\n"
        );
        assert_eq!(line(Part::Cpu(1), &columns), "CPU1,3,,cs,1000,100.00,,\n");
        let thread = Part::Thread {
            comm: "a,b".to_owned(),
            tid: 7,
        };
        assert_eq!(
            line(thread.clone(), &Layout::Text),
            "             a,b-7                         3      cs\n"
        );
        assert_eq!(line(thread, &columns), "\"a,b-7\",3,,cs,1000,100.00,,\n");
        let by = Part::By(vec!["x".to_owned(), "2".to_owned()]);
        assert_eq!(
            line(by.clone(), &Layout::Text),
            "x,2                  3      cs\n"
        );
        assert_eq!(line(by.clone(), &columns), "x,2,3,,cs,1000,100.00,,\n");
        let object: Value = serde_json::from_str(&line(by, &Layout::Json)).unwrap();
        assert_eq!(object["by"], json!(["x", "2"]));
        assert_eq!(object["counter-value"], json!(3));
    }

    #[test]
    fn turns_and_noise_stand_behind() {
        let mut one = tests::run(&[100]);
        one.counts[0].amount = Amount::Counted(Reading {
            value: 100,
            enabled: 1000,
            running: 571,
        });
        assert_eq!(
            shown(&Layout::Text, &["cycles"], &[one], None)
                .split_whitespace()
                .collect::<Vec<_>>(),
            ["175", "cycles", "(57.1%)"]
        );
        let many = [tests::run(&[10]), tests::run(&[20])];
        let shown = shown(&Layout::Text, &["cs"], &many, None);
        assert!(shown.ends_with("  ( +- 33.33% )\n"), "{shown}");
    }

    #[test]
    fn footers_have_the_times() {
        let one = RunTimes {
            runs: &[tests::run(&[])],
            used: Some((Duration::from_micros(1154), Duration::ZERO)),
        };
        assert_eq!(
            Layout::Text.footer(&one),
            "\n       2.000000000 seconds time elapsed\n\n       0.001154000 seconds user\n       0.000000000 seconds sys\n\n"
        );
        let two = RunTimes {
            runs: &[tests::run(&[]), tests::run(&[])],
            used: None,
        };
        assert_eq!(
            Layout::Text.footer(&two),
            "\n          2.000000 +- 0.000000 seconds time elapsed  ( +-  0.00% )\n\n"
        );
    }
}
