//! Timeline of each CPU's runs, with waiting times, as `perf sched timehist` answers.

use super::comm::Who;
use super::only::SchedFilter;
use super::present::Present;
use super::scheduler::{Departure, Migration, Scheduler, Step, Switch, Wakeup};
use super::state::TaskState;
use crate::process::Processes;
use crate::record::Record;
use crate::value::Frames;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Follows runs, and sums them up.
#[derive(Clone, Debug)]
pub struct Timehist {
    scheduler: Scheduler,
    only: SchedFilter,
    /// Only runs of idle CPUs, and those that end in one.
    idle: bool,
    tasks: HashMap<u32, TaskSummary>,
    cpus: BTreeMap<u32, IdleCpu>,
    span: Option<(u64, u64)>,
}

/// A printed line for a record.
#[derive(Clone, Copy, Debug)]
pub enum Line<'a> {
    /// A run ended.
    TaskRun(TaskRun, Option<Frames<'a>>),
    /// A task was woken.
    Wakeup(Wakeup),
    /// A task was moved.
    Migration(Migration),
}

/// A run: one task on one CPU, from a switch to the next.
///
/// ```text
///   left ─────────── woken ─────────── came ─────────── leaves
///    │                  └─── delay ───┘│                   │
///    └────────────── wait ────────────┘└─────── run ──────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// When it ended, ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task that ran.
    pub who: Who,
    /// From the end of the run before to the beginning of this one; 0 at its first.
    pub wait_ns: u64,
    /// From its wakeup to the beginning; 0 where it was preempted before, or its wakeup is not known.
    pub delay_ns: u64,
    /// From the beginning to the end; 0 where the trace begins within it.
    pub run_ns: u64,
    /// The state it leaves in.
    pub state: TaskState,
    /// The task that runs next.
    pub next: Who,
    /// The state in which it had left before.
    pub before: Option<TaskState>,
}

/// Run times of a task's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RunTimes {
    /// Number of runs.
    pub count: u64,
    /// Sum of the run times, ns.
    pub total_ns: u64,
    /// The shortest, ns.
    pub min_ns: u64,
    /// The average, ns.
    pub average_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The average's standard error, in hundredths of the average: `stddev` of perf.
    pub stddev_percent: f64,
    #[serde(skip)]
    mean: f64,
    #[serde(skip)]
    squares: f64,
}

/// Summary of a task's runs. Times of damaged recordings may be of any length: sums end at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TaskSummary {
    /// The task that is summed up.
    #[serde(flatten)]
    pub who: Who,
    /// The run times; with `Timehist::idle`, for how long its CPU was idle after it.
    #[serde(flatten)]
    pub run: RunTimes,
    /// Number of moves to another CPU.
    pub migrations: u64,
    /// Waited asleep, ns.
    pub sleep_ns: u64,
    /// Waited without being interruptible, ns.
    pub iowait_ns: u64,
    /// Waited while it could run, ns: preempted.
    pub preempt_ns: u64,
    /// Waited for a CPU after a wakeup, ns.
    pub delay_ns: u64,
    /// Whether it is dead.
    pub ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct IdleCpu {
    idle_ns: u64,
    /// The task that left it idle.
    last: Option<u32>,
}

/// Idle time of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Idle {
    /// The CPU.
    pub cpu: u32,
    /// Time that the CPU was idle, ns.
    pub idle_ns: u64,
    /// In hundredths of the whole time.
    pub percent: f64,
}

/// Summary over everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The tasks, by their numbers.
    pub tasks: Vec<TaskSummary>,
    /// Idle times of the CPUs.
    pub idle: Vec<Idle>,
    /// From the first to the last run's end, ns.
    pub span_ns: u64,
    /// Runs, those of idle tasks too.
    pub switches: u64,
    /// Run by all tasks that are shown, ns.
    pub run_ns: u64,
}

impl Timehist {
    /// For a trace with these events, whose recorder knew these names; with `idle` about idle CPUs only.
    pub fn new(present: Present, names: Processes, only: SchedFilter, idle: bool) -> Self {
        Self {
            scheduler: Scheduler::new(present, names),
            only,
            idle,
            tasks: HashMap::new(),
            cpus: BTreeMap::new(),
            span: None,
        }
    }

    /// Takes the next record in time; gives what is to be shown of it.
    pub fn add<'a>(&mut self, record: &Record<'a>) -> Option<Line<'a>> {
        match self.scheduler.step(record)? {
            Step::Switch(switch) => {
                let run = self.run(&switch)?;
                self.sum(&run);
                let shown = !self.idle || run.who.is_idle() || run.next.is_idle();
                (shown && self.only.task(&run.who)).then_some(Line::TaskRun(run, switch.stack))
            }
            Step::Wakeup(wakeup) => {
                let shown = self.only.task(&wakeup.waker) || self.only.task(&wakeup.woken);
                (shown && self.is_asked(wakeup.time_ns, wakeup.cpu)).then_some(Line::Wakeup(wakeup))
            }
            Step::Migration(moved) => {
                if !self.is_asked(moved.time_ns, moved.cpu) {
                    return None;
                }
                self.tasks.entry(moved.who.tid).or_default().migrations += 1;
                let shown = self.only.task(&moved.by) || self.only.task(&moved.who);
                shown.then_some(Line::Migration(moved))
            }
            Step::Run(_) => None,
        }
    }

    fn is_asked(&self, time_ns: u64, cpu: u32) -> bool {
        !self.idle && self.only.time(time_ns) && self.only.cpu(cpu)
    }

    /// Part of a run that lies within the times that are asked for.
    fn run(&self, switch: &Switch<'_>) -> Option<TaskRun> {
        let from = self.only.from_ns.unwrap_or(0);
        let out = &switch.out;
        let began_behind = out.since_ns.is_some_and(|since| self.only.is_after(since));
        if switch.time_ns < from || began_behind || !self.only.cpu(switch.cpu) {
            return None;
        }
        let time_ns = switch.time_ns.min(self.only.to_ns.unwrap_or(u64::MAX));
        let since = out.since_ns.map(|since| since.max(from));
        let until = |begin: u64| since.and_then(|since| since.checked_sub(begin)).unwrap_or(0);
        Some(TaskRun {
            time_ns,
            cpu: switch.cpu,
            who: out.who,
            wait_ns: out.before.map_or(0, |(left, _)| until(left)),
            delay_ns: out.ready_ns.map_or(0, until),
            run_ns: since.map_or(0, |since| time_ns.saturating_sub(since)),
            state: out.state,
            next: switch.into.who,
            before: before(out),
        })
    }

    fn sum(&mut self, run: &TaskRun) {
        let (begin, _) = *self.span.get_or_insert((run.time_ns, run.time_ns));
        self.span = Some((begin, run.time_ns));
        let cpu = self.cpus.entry(run.cpu).or_default();
        if run.who.is_idle() {
            cpu.idle_ns = cpu.idle_ns.saturating_add(run.run_ns);
            if let (true, Some(last)) = (self.idle, cpu.last.take()) {
                self.tasks.entry(last).or_default().run.add(run.run_ns);
            }
            return;
        }
        if self.idle {
            cpu.last = run.next.is_idle().then_some(run.who.tid);
            return;
        }
        let task = self.tasks.entry(run.who.tid).or_default();
        task.run.add(run.run_ns);
        task.delay_ns = task.delay_ns.saturating_add(run.delay_ns);
        task.ended = run.state.is_dead();
        let waited = match run.before {
            Some(state) if state.is_runnable() => &mut task.preempt_ns,
            Some(state) if state.is_uninterruptible() => &mut task.iowait_ns,
            _ => &mut task.sleep_ns,
        };
        *waited = waited.saturating_add(run.wait_ns);
    }

    /// All runs summed up.
    pub fn finish(self) -> Summary {
        let span_ns = self.span.map_or(0, |(begin, end)| end.saturating_sub(begin));
        let mut tasks: Vec<TaskSummary> = Vec::new();
        for (tid, mut task) in self.tasks {
            task.who = self.scheduler.who(tid);
            if task.run.count > 0 && self.only.task(&task.who) {
                task.run.finish();
                tasks.push(task);
            }
        }
        tasks.sort_by_key(|task| task.who.tid);
        let percent = |idle: u64| 100.0 * idle as f64 / (span_ns.max(1)) as f64;
        let idle = self.cpus.iter().map(|(cpu, it)| Idle {
            cpu: *cpu,
            idle_ns: it.idle_ns,
            percent: percent(it.idle_ns),
        });
        Summary {
            switches: tasks.iter().map(|task| task.run.count).sum(),
            run_ns: tasks
                .iter()
                .fold(0, |sum: u64, task| sum.saturating_add(task.run.total_ns)),
            tasks,
            idle: idle.collect(),
            span_ns,
        }
    }
}

fn before(out: &Departure) -> Option<TaskState> {
    out.before.map(|(_, state)| state)
}

impl RunTimes {
    fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        // The sum of squares of differences, without keeping the values (Welford).
        let difference = ns as f64 - self.mean;
        self.mean += difference / self.count as f64;
        self.squares += difference * (ns as f64 - self.mean);
    }

    fn finish(&mut self) {
        self.average_ns = self.total_ns.checked_div(self.count).unwrap_or(0);
        if self.count > 1 && self.mean > 0.0 {
            let variance = self.squares / (self.count - 1) as f64;
            self.stddev_percent = 100.0 * (variance / self.count as f64).sqrt() / self.mean;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_times_end_at_the_largest_number() {
        let mut times = RunTimes::default();
        for ns in [u64::MAX - 1, 7] {
            times.add(ns);
        }
        times.finish();
        assert_eq!((times.total_ns, times.count), (u64::MAX, 2));
        assert_eq!((times.min_ns, times.max_ns), (7, u64::MAX - 1));
    }
}
