//! Wakeups: who woke whom, how often, and with which delay; and what led to the longest delays: the wakeups before, and what the CPU ran instead.

use super::comm::Who;
use super::only::SchedFilter;
use super::present::Present;
use super::scheduler::{Delay, Migration, Reason, Scheduler, Step, Switch, Wakeup};
use crate::process::Processes;
use crate::record::Record;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Most wakeups that are kept of those that led to a delay: the last ones.
const CHAIN: usize = 8;
/// Runs that are kept of each CPU: the last ones.
const RUNS: usize = 64;
/// Queues that are kept of a task that waits: the last ones.
const QUEUES: usize = 8;

/// Collects wakeups, and the longest delays.
#[derive(Clone, Debug)]
pub struct Wakeups {
    scheduler: Scheduler,
    only: SchedFilter,
    worst: usize,
    pairs: HashMap<(u32, u32), Pair>,
    tasks: HashMap<u32, Task>,
    cpus: Vec<Cpu>,
    /// The longest delays, the longest first.
    longest: Vec<Worst>,
}

/// A waker and the task that it woke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The task that ran where the wakeup came from; `<idle>` was an interrupt.
    pub waker: Who,
    /// The task that was woken.
    pub woken: Who,
    /// Number of wakeups.
    pub count: u64,
    /// Number of delays that these began and that ended.
    pub delays: u64,
    /// Sum of the delays, ns.
    pub delay_ns: u64,
    /// The average, ns.
    pub average_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

/// A wakeup in a chain of such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU of the waker.
    pub cpu: u32,
    /// The task that ran where the wakeup happened.
    pub waker: Who,
    /// The task that was woken.
    pub woken: Who,
    /// Delay after the wakeup, ns; none while the task waits.
    pub delay_ns: Option<u64>,
}

/// Task that ran on a CPU while another waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Occupant {
    /// The CPU.
    pub cpu: u32,
    /// The task that ran.
    pub task: Who,
    /// From when on, within the delay, ns of the trace's clock.
    pub from_ns: u64,
    /// For how long, ns.
    pub ns: u64,
}

/// A long delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worst {
    /// The task that waited.
    pub task: Who,
    /// The CPU it came to.
    pub cpu: u32,
    /// Why the task waited.
    pub reason: Reason,
    /// When it began, ns of the trace's clock.
    pub began_ns: u64,
    /// The delay, ns.
    pub delay_ns: u64,
    /// The wakeups that led to it, the first first; the last one is its own, where it was woken.
    pub chain: Vec<Link>,
    /// Tasks that ran on the CPUs in whose queues it waited.
    pub meanwhile: Vec<Occupant>,
}

/// A queue that a task waits in.
#[derive(Clone, Copy, Debug)]
struct Queue {
    since_ns: u64,
    cpu: u32,
}

#[derive(Clone, Debug, Default)]
struct Task {
    chain: Vec<Link>,
    /// Where it has waited since its delay began.
    queues: Vec<Queue>,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    /// Ended runs, the oldest first.
    runs: VecDeque<Occupant>,
    /// The running task, and since when.
    running: Option<(Who, u64)>,
}

impl Wakeups {
    /// For a trace with these events, whose recorder knew these names; keeps so many delays. Of CPUs and times those count where a delay ended.
    pub fn new(present: Present, names: Processes, only: SchedFilter, worst: usize) -> Self {
        Self {
            scheduler: Scheduler::new(present, names),
            only,
            worst,
            pairs: HashMap::new(),
            tasks: HashMap::new(),
            cpus: Vec::new(),
            longest: Vec::new(),
        }
    }

    /// Takes the next record in time.
    pub fn add(&mut self, record: &Record<'_>) {
        match self.scheduler.step(record) {
            Some(Step::Wakeup(wakeup)) => self.wake(&wakeup),
            Some(Step::Migration(moved)) => self.migrate(&moved),
            Some(Step::Switch(switch)) => self.switch(&switch),
            Some(Step::Run(_)) | None => {}
        }
    }

    /// The pairs, the most frequent first, and the longest delays, the longest first.
    pub fn finish(self) -> (Vec<Pair>, Vec<Worst>) {
        let mut pairs = Vec::new();
        for ((waker, woken), mut pair) in self.pairs {
            pair.waker = self.scheduler.who(waker);
            pair.woken = self.scheduler.who(woken);
            pair.average_ns = pair.delay_ns.checked_div(pair.delays).unwrap_or(0);
            if self.only.task(&pair.waker) || self.only.task(&pair.woken) {
                pairs.push(pair);
            }
        }
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.count), pair.waker.tid, pair.woken.tid));
        (pairs, self.longest)
    }

    fn wake(&mut self, wakeup: &Wakeup) {
        if self.only.time(wakeup.time_ns) && self.only.cpu(wakeup.target_cpu) {
            let pair = (wakeup.waker.tid, wakeup.woken.tid);
            self.pairs.entry(pair).or_default().count += 1;
        }
        if !wakeup.begins {
            return;
        }
        let mut chain = match self.tasks.get(&wakeup.waker.tid) {
            Some(waker) if !wakeup.waker.is_idle() => waker.chain.clone(),
            _ => Vec::new(),
        };
        if chain.len() == CHAIN {
            chain.remove(0);
        }
        chain.push(Link {
            time_ns: wakeup.time_ns,
            cpu: wakeup.cpu,
            waker: wakeup.waker,
            woken: wakeup.woken,
            delay_ns: None,
        });
        let task = self.tasks.entry(wakeup.woken.tid).or_default();
        task.chain = chain;
        task.wait(wakeup.time_ns, wakeup.target_cpu);
    }

    fn migrate(&mut self, moved: &Migration) {
        if let Some(task) = self.tasks.get_mut(&moved.who.tid)
            && !task.queues.is_empty()
        {
            if task.queues.len() == QUEUES {
                task.queues.remove(0);
            }
            task.queues.push(Queue {
                since_ns: moved.time_ns,
                cpu: moved.to,
            });
        }
    }

    fn switch(&mut self, switch: &Switch<'_>) {
        let index = switch.cpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, Cpu::default());
        }
        self.cpus[index].switch(switch);
        if switch.out.state.is_runnable() && !switch.out.who.is_idle() {
            let task = self.tasks.entry(switch.out.who.tid).or_default();
            task.wait(switch.time_ns, switch.cpu);
        }
        if let Some(delay) = switch.into.delay {
            self.arrive(switch, delay);
        }
        if switch.out.state.is_dead() {
            self.tasks.remove(&switch.out.who.tid);
        }
    }

    fn arrive(&mut self, switch: &Switch<'_>, delay: Delay) {
        let who = switch.into.who;
        let task = self.tasks.entry(who.tid).or_default();
        let queues = std::mem::take(&mut task.queues);
        let counts = self.only.time(switch.time_ns) && self.only.cpu(switch.cpu);
        if delay.reason == Reason::Woken
            && let Some(link) = task.chain.last_mut()
        {
            link.delay_ns = Some(delay.ns);
            if counts && let Some(pair) = self.pairs.get_mut(&(link.waker.tid, who.tid)) {
                pair.delays += 1;
                pair.delay_ns += delay.ns;
                pair.max_ns = pair.max_ns.max(delay.ns);
            }
        }
        let shortest = self.longest.last().map_or(0, |worst| worst.delay_ns);
        let among = self.longest.len() < self.worst || delay.ns > shortest;
        if delay.reason == Reason::Unseen || self.worst == 0 || !among || !counts || !self.only.task(&who) {
            return;
        }
        let worst = Worst {
            task: who,
            cpu: switch.cpu,
            reason: delay.reason,
            began_ns: delay.from_ns,
            delay_ns: delay.ns,
            chain: task.chain.clone(),
            meanwhile: self.meanwhile(&queues, delay, switch.cpu),
        };
        self.longest.truncate(self.worst - 1);
        let at = self.longest.partition_point(|it| it.delay_ns >= worst.delay_ns);
        self.longest.insert(at, worst);
    }

    /// Tasks that ran where a task waited: one queue after the other, the last one that of the CPU it came to.
    fn meanwhile(&self, queues: &[Queue], delay: Delay, cpu: u32) -> Vec<Occupant> {
        let end = delay.from_ns + delay.ns;
        let mut all = Vec::new();
        for (index, queue) in queues.iter().enumerate() {
            let next = queues.get(index + 1);
            let place = if next.is_none() { cpu } else { queue.cpu };
            let until = next.map_or(end, |next| next.since_ns);
            if let Some(cpu) = self.cpus.get(place as usize) {
                cpu.between(place, queue.since_ns, until, &mut all);
            }
        }
        all
    }
}

impl Task {
    /// A delay begins.
    fn wait(&mut self, since_ns: u64, cpu: u32) {
        self.queues.clear();
        self.queues.push(Queue { since_ns, cpu });
    }
}

impl Cpu {
    fn switch(&mut self, switch: &Switch<'_>) {
        if let Some((task, from_ns)) = self.running.replace((switch.into.who, switch.time_ns)) {
            if self.runs.len() == RUNS {
                self.runs.pop_front();
            }
            self.runs.push_back(Occupant {
                cpu: switch.cpu,
                task,
                from_ns,
                // Times of a damaged recording may run backwards.
                ns: switch.time_ns.saturating_sub(from_ns),
            });
        }
    }

    /// Adds what it ran in that time.
    fn between(&self, cpu: u32, begin: u64, end: u64, all: &mut Vec<Occupant>) {
        let running = self
            .running
            .map(|(task, from_ns)| (task, from_ns, end.max(from_ns)));
        let ended = self.runs.iter();
        let ended = ended.map(|run| (run.task, run.from_ns, run.from_ns.saturating_add(run.ns)));
        for (task, from, to) in ended.chain(running) {
            let (from, to) = (from.max(begin), to.min(end));
            if from < to {
                all.push(Occupant {
                    cpu,
                    task,
                    from_ns: from,
                    ns: to - from,
                });
            }
        }
    }
}
