//! States of each thread over time, from one change to the next, as [`Scheduler`]'s steps tell it.

use super::columns::Columns;
use super::longest::{Lasting, Longest, LongestKept};
use super::shares::{Row, Shares};
use super::threads::Threads;
use crate::process::Processes;
use crate::record::Record;
use crate::sched::{Departure, Present, Scheduler, Step, Who};
use crate::tasks::Tasks;
use foldhash::fast::RandomState;
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// The thread ran.
const RUNNING: u8 = b'r';
/// The thread could run: something woke it.
const WOKEN: u8 = b'w';
/// The thread could run: it was preempted, or yielded.
const PREEMPTED: u8 = b'p';
/// The thread waited for something and could not be interrupted.
const BLOCKED: u8 = b'D';
/// The thread waited in a state that was not recorded. Other states of waiting threads are the letters of `ps`.
const ASLEEP: u8 = b'?';

/// The state began before the records did.
const BEGAN_BEFORE: u8 = 1;
/// The state had not ended when the records did.
const UNFINISHED: u8 = 2;

/// A thread in one state.
#[derive(Clone, Copy, Debug)]
struct State {
    thread: u32,
    begin_ns: u64,
    end_ns: u64,
    state: u8,
    /// Where it ran; else where it had run before.
    cpu: u32,
    /// For a wait: 1 + the index of the thread that woke it; 0 where none did.
    woken_by: u32,
    /// For a wait: 1 + the node of the stack with which it left its CPU; 0 without a stack.
    stack: u32,
    edges: u8,
}

impl Lasting for State {
    fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// Total time of a thread in each state, whatever is kept of the single ones.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    running_ns: u64,
    runnable_ns: u64,
    waiting_ns: u64,
}

/// States of threads over time, from the scheduler's records.
#[derive(Debug)]
pub(super) struct States {
    scheduler: Scheduler,
    /// By the thread's place, the state that it is in.
    now: HashMap<u32, State, RandomState>,
    /// By CPU, the thread that runs there.
    on_cpu: Vec<Option<u32>>,
    longest: Longest<State>,
    totals: Vec<Total>,
    begin_ns: Option<u64>,
    shares: Option<Shares>,
}

impl States {
    /// Collector for a trace with these events, `most` to be kept; none where the trace has no events of the scheduler.
    pub(super) fn new(present: Present, names: Processes, most: usize) -> Option<Self> {
        present.switches.then(|| Self {
            scheduler: Scheduler::new(present, names),
            now: HashMap::default(),
            on_cpu: Vec::new(),
            longest: Longest::new(most),
            totals: Vec::new(),
            begin_ns: None,
            shares: None,
        })
    }

    /// Takes the next record in time; `stack` is 1 + the node of its stack, or 0. Of threads that the recording is not about only pieces are known: they have no states.
    pub(super) fn step(&mut self, record: &Record<'_>, stack: u32, threads: &mut Threads, tasks: &Tasks) {
        let begin_ns = *self.begin_ns.get_or_insert(record.time_ns);
        let mut placed = |who: Who| {
            let is_followed = !who.is_idle() && tasks.is_target(who.tid);
            is_followed.then(|| threads.index_of(who.tid, who.pid))
        };
        match self.scheduler.step(record) {
            Some(Step::Switch(switch)) => {
                let (out, into) = (placed(switch.out.who), placed(switch.into.who));
                self.leave((switch.time_ns, switch.cpu), begin_ns, out, switch.out, stack);
                self.come(switch.time_ns, switch.cpu, into);
            }
            Some(Step::Wakeup(wakeup)) if wakeup.begins => {
                let Some(thread) = placed(wakeup.woken) else {
                    return;
                };
                let by = 1 + threads.index_of(wakeup.waker.tid, wakeup.waker.pid);
                let cpu = wakeup.target_cpu;
                let before = State::new(thread, begin_ns, ASLEEP, cpu);
                if !wakeup.is_new {
                    self.now.entry(thread).or_insert(State {
                        edges: BEGAN_BEFORE,
                        ..before
                    });
                    self.end(thread, wakeup.time_ns, by);
                }
                let woken = State::new(thread, wakeup.time_ns, WOKEN, cpu);
                self.now.insert(
                    thread,
                    State {
                        woken_by: by,
                        ..woken
                    },
                );
            }
            _ => {}
        }
    }

    /// A CPU's thread leaves it.
    fn leave(
        &mut self,
        (time_ns, cpu): (u64, u32),
        begin_ns: u64,
        thread: Option<u32>,
        out: Departure,
        stack: u32,
    ) {
        let at = cpu as usize;
        if self.on_cpu.len() <= at {
            self.on_cpu.resize(at + 1, None);
        }
        // Where another thread ran as far as was recorded, a switch is missing: when that one left is not known.
        if let Some(other) = self.on_cpu[at].take().filter(|other| Some(*other) != thread) {
            self.now.remove(&other);
        }
        let Some(thread) = thread else { return };
        let (since_ns, edges) = match out.since_ns {
            Some(since) => (since, 0),
            // The first task of a CPU was there before.
            None => (begin_ns, BEGAN_BEFORE),
        };
        if self.now.get(&thread).is_none_or(|state| state.state != RUNNING) {
            self.end(thread, since_ns, 0);
            let running = State::new(thread, since_ns, RUNNING, cpu);
            self.now.insert(thread, State { edges, ..running });
        }
        self.end(thread, time_ns, 0);
        if out.state.is_dead() {
            return;
        }
        let letter = match out.state.is_runnable() {
            true => PREEMPTED,
            false => out.state.letter() as u8,
        };
        let waiting = State::new(thread, time_ns, letter, cpu);
        self.now.insert(thread, State { stack, ..waiting });
    }

    /// A CPU takes a thread.
    fn come(&mut self, time_ns: u64, cpu: u32, thread: Option<u32>) {
        if let Some(place) = self.on_cpu.get_mut(cpu as usize) {
            *place = thread;
        }
        if let Some(thread) = thread {
            self.end(thread, time_ns, 0);
            let running = State::new(thread, time_ns, RUNNING, cpu);
            self.now.insert(thread, running);
        }
    }

    /// The state that a thread is in is over.
    fn end(&mut self, thread: u32, time_ns: u64, woken_by: u32) {
        if let Some(state) = self.now.remove(&thread) {
            let woken_by = if state.state == WOKEN {
                state.woken_by
            } else {
                woken_by
            };
            self.keep(State {
                end_ns: time_ns.max(state.begin_ns),
                woken_by,
                ..state
            });
        }
    }

    fn keep(&mut self, state: State) {
        let place = state.thread as usize;
        if self.totals.len() <= place {
            self.totals.resize(place + 1, Total::default());
        }
        let (total, ns) = (&mut self.totals[place], state.ns());
        let kind = match state.state {
            RUNNING => {
                total.running_ns += ns;
                Some(0)
            }
            WOKEN | PREEMPTED => {
                total.runnable_ns += ns;
                Some(1)
            }
            state => {
                total.waiting_ns += ns;
                (state == BLOCKED).then_some(2)
            }
        };
        if let Some(kind) = kind {
            let begin_ns = self.begin_ns.unwrap_or(state.begin_ns);
            let shares = self.shares.get_or_insert_with(|| Shares::new(begin_ns));
            shares.add(Row::Thread(state.thread), state.begin_ns, state.end_ns, kind);
            if kind == 0 {
                shares.add(Row::Cpu(state.cpu), state.begin_ns, state.end_ns, kind);
            }
        }
        if ns > 0 && self.longest.wants(ns) {
            self.longest.push(state);
        }
    }

    /// The states up to the end of the records, in columns; gives what is to be said of those that were left out.
    pub(super) fn finish(mut self, end_ns: u64, columns: &mut Columns) -> Json {
        let mut left: Vec<State> = self.now.drain().map(|(_, state)| state).collect();
        left.sort_by_key(|state| state.thread);
        for state in left {
            self.keep(State {
                end_ns: end_ns.max(state.begin_ns),
                edges: state.edges | UNFINISHED,
                ..state
            });
        }
        let totals = self.totals.iter();
        columns.numbers("total.running", totals.clone().map(|it| it.running_ns.into()));
        columns.numbers("total.runnable", totals.clone().map(|it| it.runnable_ns.into()));
        columns.numbers("total.waiting", totals.map(|it| it.waiting_ns.into()));
        let LongestKept {
            kept,
            left_out,
            up_to_ns,
        } = self.longest.finish();
        let states = kept.iter();
        columns.rising("state.begin", states.clone().map(|it| it.begin_ns));
        columns.numbers("state.ns", states.clone().map(|it| it.ns().into()));
        columns.numbers("state.thread", states.clone().map(|it| it.thread.into()));
        columns.numbers("state.state", states.clone().map(|it| it.state.into()));
        columns.numbers("state.cpu", states.clone().map(|it| it.cpu.into()));
        columns.numbers("state.by", states.clone().map(|it| it.woken_by.into()));
        columns.numbers("state.stack", states.clone().map(|it| it.stack.into()));
        columns.numbers("state.edges", states.map(|it| it.edges.into()));
        // Where all states are there, they say it themselves.
        let shares = self.shares.filter(|_| left_out > 0);
        json!({
            "left_out": left_out,
            "up_to": up_to_ns,
            "shares": shares.map(|shares| shares.finish(columns)),
        })
    }
}

impl State {
    fn new(thread: u32, begin_ns: u64, state: u8, cpu: u32) -> Self {
        Self {
            thread,
            begin_ns,
            end_ns: begin_ns,
            state,
            cpu,
            woken_by: 0,
            stack: 0,
            edges: 0,
        }
    }
}
