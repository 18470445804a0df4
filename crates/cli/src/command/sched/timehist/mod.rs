//! `kestrel sched timehist`: one line for each time that a task leaves a CPU.

mod summary;

use super::filter::Filter;
use super::reading::Reading;
use super::show::{long, milliseconds, seconds};
use crate::arguments::TraceArgument;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::json;
use clap::Args;
use kestrel_trace::print::shown;
use kestrel_trace::sched::{Line, Migration, TaskRun, Timehist, Wakeup, Who};
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Frames;
use serde::Serialize;
use std::io::Write;

/// Options of `sched timehist`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also the state in which a task leaves its CPU; in a summary, what it waited for
    #[arg(long)]
    state: bool,
    /// Also lines for wakeups
    #[arg(short, long)]
    wakeups: bool,
    /// Also lines for tasks that are moved to another CPU
    #[arg(short = 'M', long)]
    migrations: bool,
    /// Also what runs next
    #[arg(short, long)]
    next: bool,
    /// Only the sums of each task: how often and how long it ran
    #[arg(short, long, conflicts_with = "with_summary")]
    summary: bool,
    /// The lines, and the sums behind them
    #[arg(short = 'S', long)]
    with_summary: bool,
    /// Only idle CPUs: how long each was, and after which task
    #[arg(short = 'I', long)]
    idle: bool,
    /// No call stacks
    #[arg(short = 'G', long)]
    no_stacks: bool,
    #[command(flatten)]
    filter: Filter,
}

const EXAMPLES: &str = "\
Examples:
  kestrel sched timehist                       every run of every task, in the order of their ends
  kestrel sched timehist -p 1234 --state -n    those of a process, with its states and what came next
  kestrel sched timehist -wM                   with wakeups and moves between CPUs
  kestrel sched timehist -s                    how often and how long each task ran
  kestrel sched timehist -I -s                 how long CPUs were idle, and after which task
  kestrel sched timehist --format json | jq 'select(.delay_ns > 1000000)'

Wait time runs from the end of a task's previous run to the beginning of this one, the delay from its wakeup, the run time from beginning to end; in ms.";

/// Functions that are innermost in every stack of a switch, and are left out because they say only that.
const SWITCHING: &[&str] = &[
    "__traceiter_sched_switch",
    "__schedule",
    "schedule",
    "preempt_schedule",
];

/// Width of the column of tasks.
const TASK: usize = 30;

/// Runs `kestrel sched timehist`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let lines = !options.summary;
    let mut reading = Reading::open(&options.trace.path, false)?.with_bar(lines);
    if !reading.present.has_wakeups() {
        eprintln!("the trace holds no wakeups: there are no delays (`kestrel sched record` records both)");
    }
    let symbols = std::mem::take(&mut reading.trace.symbols);
    let mut timehist = Timehist::new(
        reading.present,
        reading.names(),
        options.filter.only(reading.tasks()),
        options.idle,
    );
    let mut out = crate::screen::out();
    if lines && options.format == Format::Text {
        head(options, &mut out)?;
    }
    reading.each(|record| match timehist.add(record) {
        Some(line) if lines => options.write(line, &symbols, &mut out),
        _ => Ok(()),
    })?;
    if options.summary || options.with_summary {
        summary::write(options, &timehist.finish(), reading.gaps(), &mut out)?;
    }
    out.flush()?;
    Ok(reading.finish())
}

fn head(options: &Options, out: &mut impl Write) -> Result<(), Failure> {
    let state = if options.state { "  state" } else { "" };
    writeln!(
        out,
        "{:>15} {:<6}  {:<TASK$}  {:>9}  {:>9}  {:>9}{state}",
        "time", "cpu", "task name", "wait time", "sch delay", "run time"
    )?;
    writeln!(
        out,
        "{:>15} {:<6}  {:<TASK$}  {:>9}  {:>9}  {:>9}",
        "s", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
    )?;
    Ok(())
}

impl Options {
    fn write(&self, line: Line<'_>, symbols: &Symbols, out: &mut impl Write) -> Result<(), Failure> {
        let json = self.format == Format::Json;
        match line {
            Line::TaskRun(run, stack) => {
                let stack = stack.filter(|_| !self.no_stacks && !run.who.is_idle());
                let stack = stack.map(|frames| frames_of(frames, symbols));
                match json {
                    true => writeln!(out, "{}", json::line(&RowJson::run(&run, stack))?)?,
                    false => self.run(&run, stack, out)?,
                }
            }
            Line::Wakeup(wakeup) if self.wakeups && json => {
                writeln!(out, "{}", json::line(&RowJson::wakeup(&wakeup))?)?;
            }
            Line::Wakeup(it) if self.wakeups => {
                let what = format!("awakened: {}", long(&it.woken));
                between(it.time_ns, it.cpu, &it.waker, &what, out)?;
            }
            Line::Migration(moved) if self.migrations && json => {
                writeln!(out, "{}", json::line(&RowJson::migration(&moved))?)?;
            }
            Line::Migration(it) if self.migrations => {
                let what = format!("migrated: {} cpu {} => {}", long(&it.who), it.from, it.to);
                between(it.time_ns, it.cpu, &it.by, &what, out)?;
            }
            Line::Wakeup(_) | Line::Migration(_) => {}
        }
        Ok(())
    }

    fn run(&self, run: &TaskRun, stack: Option<Vec<String>>, out: &mut impl Write) -> Result<(), Failure> {
        let mut line = format!(
            "{:>15} [{:04}]  {:<TASK$}  {:>9}  {:>9}  {:>9}",
            seconds(run.time_ns),
            run.cpu,
            long(&run.who),
            milliseconds(run.wait_ns),
            milliseconds(run.delay_ns),
            milliseconds(run.run_ns)
        );
        if self.state {
            line += &format!("  {:>5}", state(run));
        }
        if self.next {
            line += &format!("  next: {:<24}", long(&run.next));
        }
        if let Some(frames) = stack {
            line += &format!("  {}", frames.join(" <- "));
        }
        Ok(writeln!(out, "{}", line.trim_end())?)
    }
}

/// Writes a line for a wakeup or migration: what ran there, and what it did.
fn between(time_ns: u64, cpu: u32, who: &Who, what: &str, out: &mut impl Write) -> Result<(), Failure> {
    Ok(writeln!(
        out,
        "{:>15} [{cpu:04}]  {:<TASK$}  {:>9}  {:>9}  {:>9}  {what}",
        seconds(time_ns),
        long(who),
        "",
        "",
        ""
    )?)
}

fn state(run: &TaskRun) -> char {
    // As in perf, the only state of an idle task is `I`.
    if run.who.is_idle() {
        'I'
    } else {
        run.state.letter()
    }
}

/// A line as JSON has it (docs/sched.md).
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum RowJson {
    Run {
        time_ns: u64,
        cpu: u32,
        task: Who,
        wait_ns: u64,
        delay_ns: u64,
        run_ns: u64,
        state: char,
        preempted: bool,
        next: Who,
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<Vec<String>>,
    },
    Wakeup {
        time_ns: u64,
        cpu: u32,
        task: Who,
        woken: Who,
        target_cpu: u32,
    },
    Migration {
        time_ns: u64,
        cpu: u32,
        task: Who,
        migrated: Who,
        from: u32,
        to: u32,
    },
}

impl RowJson {
    fn run(run: &TaskRun, stack: Option<Vec<String>>) -> Self {
        Self::Run {
            time_ns: run.time_ns,
            cpu: run.cpu,
            task: run.who,
            wait_ns: run.wait_ns,
            delay_ns: run.delay_ns,
            run_ns: run.run_ns,
            state: state(run),
            preempted: run.state.is_preempted(),
            next: run.next,
            stack,
        }
    }

    fn wakeup(wakeup: &Wakeup) -> Self {
        Self::Wakeup {
            time_ns: wakeup.time_ns,
            cpu: wakeup.cpu,
            task: wakeup.waker,
            woken: wakeup.woken,
            target_cpu: wakeup.target_cpu,
        }
    }

    fn migration(moved: &Migration) -> Self {
        Self::Migration {
            time_ns: moved.time_ns,
            cpu: moved.cpu,
            task: moved.by,
            migrated: moved.who,
            from: moved.from,
            to: moved.to,
        }
    }
}

/// The functions of a stack, the innermost first, without those that every switch has.
fn frames_of(frames: Frames<'_>, symbols: &Symbols) -> Vec<String> {
    let name = |address: u64| match symbols.resolve(address) {
        Some(it) => shown(it.name).into_owned(),
        None => format!("{address:#x}"),
    };
    let names = frames.iter().map(name);
    names
        .skip_while(|name| SWITCHING.contains(&name.as_str()))
        .collect()
}
