//! `kestrel sched map`: which task each CPU has, a line for each switch.

use super::filter::{numbers, range};
use super::reading::Reading;
use super::show::{seconds, short};
use crate::arguments::TraceArgument;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::json;
use crate::style;
use clap::Args;
use kestrel_trace::sched::{Change, Map, Who};
use serde::Serialize;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Options of `sched map`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Columns only for CPUs that have switched tasks so far, in the order of their first switch
    #[arg(long)]
    compact: bool,
    /// Only tasks of these names; others are shown as -
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    task_name: Vec<String>,
    /// Columns only for these CPUs, as 0,2-3
    #[arg(long, value_name = "CPUS", value_delimiter = ',', value_parser = range)]
    cpus: Vec<(u32, u32)>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel sched map                            the trace in ./kestrel.trace
  kestrel sched map --compact                  without columns for CPUs that had no switch yet
  kestrel sched map --task-name make,cc1       where two programs ran
  kestrel sched map --cpus 0-1 --format json   lines of JSON for two CPUs

Each task has a shortcut of two letters, which is explained where it comes first; . is an idle CPU, * the CPU that switched.";

/// The cell of a task that was not asked for.
const OTHER: &str = "- ";
const UNKNOWN: &str = "  ";
const BOLD: &str = "\x1b[1;34m";
const PLAIN: &str = "\x1b[0m";

/// The columns of CPUs.
struct Columns {
    compact: bool,
    /// The CPUs that were asked for; empty for all.
    only: Vec<u32>,
    /// The CPUs that have a column, in the order of the columns.
    shown: Vec<u32>,
}

/// Runs `kestrel sched map`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut reading = Reading::open(&options.trace.path, false)?.with_bar(true);
    let mut map = Map::new(reading.present, reading.names());
    let mut columns = Columns::new(options);
    // Without a summary, columns come as CPUs do.
    for event in reading.trace.summary.iter().flat_map(|summary| &summary.events) {
        columns.reach(event.cpu);
    }
    let colour = options.format == Format::Text && style::colour(std::io::stdout().is_terminal());
    let mut out = crate::screen::out();
    reading.each(|record| {
        let Some(change) = map.add(record) else {
            return Ok(());
        };
        columns.add(change.cpu);
        let asked = options.names(&change.who) || options.names(&change.out);
        if !asked || !columns.has(change.cpu) {
            return Ok(());
        }
        match options.format {
            Format::Json => writeln!(out, "{}", json::line(&document(&change, &map, &columns))?)?,
            Format::Text => writeln!(out, "{}", options.line(&change, &mut map, &columns, colour))?,
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(reading.finish())
}

impl Columns {
    fn new(options: &Options) -> Self {
        Self {
            compact: options.compact,
            only: numbers(&options.cpus),
            shown: Vec::new(),
        }
    }

    fn has(&self, cpu: u32) -> bool {
        self.only.is_empty() || self.only.contains(&cpu)
    }

    /// Adds a column for a CPU that exists, unless columns are compact: these wait for the CPU's first switch.
    fn reach(&mut self, cpu: u32) {
        if !self.compact {
            let next = self.shown.last().map_or(0, |last| last + 1);
            let new: Vec<u32> = (next..=cpu).filter(|cpu| self.has(*cpu)).collect();
            self.shown.extend(new);
        }
    }

    /// Adds a column for a CPU that has switched tasks.
    fn add(&mut self, cpu: u32) {
        self.reach(cpu);
        if self.compact && self.has(cpu) && !self.shown.contains(&cpu) {
            self.shown.push(cpu);
        }
    }
}

impl Options {
    fn names(&self, who: &Who) -> bool {
        self.task_name.is_empty() || self.task_name.iter().any(|name| *name == who.comm.text())
    }

    fn line(&self, change: &Change, map: &mut Map, columns: &Columns, colour: bool) -> String {
        let (bold, plain) = if colour { (BOLD, PLAIN) } else { ("", "") };
        let mut line = String::from("  ");
        for cpu in &columns.shown {
            let here = *cpu == change.cpu;
            let cell = match map.cpus().get(*cpu as usize).copied().flatten() {
                None => UNKNOWN.to_owned(),
                Some((who, _)) if !who.is_idle() && !self.names(&who) => OTHER.to_owned(),
                Some((_, shortcut)) => shortcut.to_string(),
            };
            line += &match here {
                true => format!("{bold}*{cell}{plain} "),
                false => format!(" {cell} "),
            };
        }
        line += &format!(" {:>14} s", seconds(change.time_ns));
        if self.names(&change.who) && map.explain(&change.who) {
            line += &format!(" {bold}{} => {}{plain}", change.shortcut, short(&change.who));
        }
        line
    }
}

/// A switch as JSON has it (docs/sched.md).
#[derive(Debug, Serialize)]
struct SwitchJson {
    time_ns: u64,
    cpu: u32,
    task: Who,
    shortcut: String,
    cpus: Vec<CpuJson>,
}

/// A CPU and what runs there.
#[derive(Debug, Serialize)]
struct CpuJson {
    cpu: u32,
    shortcut: Option<String>,
}

fn document(change: &Change, map: &Map, columns: &Columns) -> SwitchJson {
    let written = |shortcut: &dyn Display| shortcut.to_string().trim_end().to_owned();
    let cell = |cpu: &u32| {
        let has = map.cpus().get(*cpu as usize).copied().flatten();
        CpuJson {
            cpu: *cpu,
            shortcut: has.map(|(_, shortcut)| written(&shortcut)),
        }
    };
    SwitchJson {
        time_ns: change.time_ns,
        cpu: change.cpu,
        task: change.who,
        shortcut: written(&change.shortcut),
        cpus: columns.shown.iter().map(cell).collect(),
    }
}
