//! The one state machine: what every task and CPU does, followed over records in order of time.
//!
//! ```text
//!   (unseen) ──switch in──► running ──switch out, not runnable──► sleeping ──wakeup──► waiting ──switch in──► running
//!                              └───────switch out, runnable (R)──────────────────────────►┘
//! ```
//!
//! A *delay* is the time in `waiting`: from the wakeup, or from the moment when the task was preempted or yielded. A wakeup of a task that does not sleep begins none. A task that
//! comes in although nothing woke it (its wakeup was lost, missed or not recorded) has no delay; one that was never seen before has one of 0 ns, as in `perf sched latency`.

use super::comm::{Comm, Who};
use super::event::{Decoder, Event, Named, SchedulerEvent};
use super::present::Present;
use super::state::TaskState;
use crate::process::Processes;
use crate::record::Record;
use crate::value::Frames;
use std::collections::HashMap;

/// Follows tasks and CPUs.
#[derive(Clone, Debug)]
pub struct Scheduler {
    decoder: Decoder,
    /// Whether `sched_waking` says who wakes whom, and `sched_wakeup` is passed over.
    waking: bool,
    tasks: HashMap<u32, Task>,
    cpus: Vec<Cpu>,
    /// Names of tasks that no record names.
    names: Processes,
}

/// A step: the change that a record makes.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A CPU leaves one task and takes another.
    Switch(Switch<'a>),
    /// A task was woken.
    Wakeup(Wakeup),
    /// A task was moved to another CPU's queue.
    Migration(Migration),
    /// The scheduler charged time to a task.
    Run(Run),
}

/// A CPU leaves one task and takes another.
#[derive(Clone, Copy, Debug)]
pub struct Switch<'a> {
    /// ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task that leaves.
    pub out: Departure,
    /// The task that comes.
    pub into: Arrival,
    /// The kernel's call stack, where one was recorded.
    pub stack: Option<Frames<'a>>,
}

/// A task that leaves its CPU, and what it had to wait before it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The task that leaves.
    pub who: Who,
    /// The state it leaves in.
    pub state: TaskState,
    /// When it had come: the last switch of the CPU; none for the first task of a CPU.
    pub since_ns: Option<u64>,
    /// When it had left a CPU before that, and in which state.
    pub before: Option<(u64, TaskState)>,
    /// The first wakeup since then, whatever it did at that time.
    pub ready_ns: Option<u64>,
}

/// A task that begins to run on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The task that arrives.
    pub who: Who,
    /// For how long it had been able to run; none where nothing says what woke it.
    pub delay: Option<Delay>,
}

/// Scheduling delay of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Time from which the task waited, ns.
    pub from_ns: u64,
    /// Length, ns.
    pub ns: u64,
    /// Why the task waited.
    pub reason: Reason,
}

/// Reason for which a task waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The task was woken.
    Woken,
    /// The task was preempted, or yielded.
    Preempted,
    /// The task was never seen before: its delay is unknown and counts as 0.
    Unseen,
}

/// A task was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU of the waker.
    pub cpu: u32,
    /// The task that ran there: the waker, or the one that an interrupt that woke the task had interrupted.
    pub waker: Who,
    /// The task that is woken.
    pub woken: Who,
    /// The CPU that it is to run on, as far as known by then.
    pub target_cpu: u32,
    /// Whether a delay begins: the task slept.
    pub begins: bool,
    /// Whether it is its first: it did not exist before.
    pub is_new: bool,
}

/// A task was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU of who moved it.
    pub cpu: u32,
    /// The task that ran there.
    pub by: Who,
    /// The task that moves.
    pub who: Who,
    /// From this CPU.
    pub from: u32,
    /// To this one.
    pub to: u32,
}

/// The scheduler charged time to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// ns of the trace's clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task that ran.
    pub who: Who,
    /// Length, ns.
    pub ns: u64,
}

/// State of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TaskActivity {
    #[default]
    Unseen,
    Sleeping,
    Waiting {
        from_ns: u64,
        reason: Reason,
    },
    Running,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    comm: Comm,
    /// 0 until a record is of the task itself.
    pid: u32,
    standing: TaskActivity,
    before: Option<(u64, TaskState)>,
    ready_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    switched_ns: Option<u64>,
    /// When its idle task left it last.
    idle_before: Option<(u64, TaskState)>,
}

impl Scheduler {
    /// For a trace with these events, whose recorder knew these names.
    pub fn new(present: Present, names: Processes) -> Self {
        Self {
            decoder: Decoder::default(),
            waking: present.waking,
            tasks: HashMap::new(),
            cpus: Vec::new(),
            names,
        }
    }

    /// Takes the next record in time; none where it changes nothing of what is asked.
    pub fn step<'a>(&mut self, record: &Record<'a>) -> Option<Step<'a>> {
        let event = self.decoder.decode(record)?;
        if record.tid != 0 {
            self.tasks.entry(record.tid).or_default().pid = record.pid;
        }
        let (time_ns, cpu) = (record.time_ns, record.cpu);
        match event {
            Event::Switch {
                previous,
                state,
                next,
                stack,
            } => Some(Step::Switch(self.switch(
                (time_ns, cpu),
                previous,
                state,
                next,
                stack,
            ))),
            // `sched_waking` came before it: there the wait for a CPU began.
            Event::Wakeup { kind, .. } if kind == SchedulerEvent::Wakeup && self.waking => None,
            Event::Wakeup {
                kind,
                woken,
                target_cpu,
            } => {
                let begins = self.wake(time_ns, kind, woken);
                Some(Step::Wakeup(Wakeup {
                    time_ns,
                    cpu,
                    waker: self.who(record.tid),
                    woken: self.who(woken.tid),
                    target_cpu,
                    begins,
                    is_new: kind == SchedulerEvent::WakeupNew,
                }))
            }
            Event::Migrate { task, from, to } => Some(Step::Migration(Migration {
                time_ns,
                cpu,
                by: self.who(record.tid),
                who: self.named(task),
                from,
                to,
            })),
            Event::Runtime { task, ns } => Some(Step::Run(Run {
                time_ns,
                cpu,
                who: self.named(task),
                ns,
            })),
            Event::Name { task } => {
                self.named(task);
                None
            }
        }
    }

    /// The task as it is known so far.
    pub fn who(&self, tid: u32) -> Who {
        if tid == 0 {
            return Who {
                comm: Comm::IDLE,
                ..Who::default()
            };
        }
        let task = self.tasks.get(&tid).copied().unwrap_or_default();
        let pid = if task.pid == 0 { tid } else { task.pid };
        let comm = match task.comm == Comm::default() {
            true => Comm::new(self.names.name_bytes(tid, pid).unwrap_or(b"<...>")),
            false => task.comm,
        };
        Who { tid, pid, comm }
    }

    fn named(&mut self, task: Named) -> Who {
        if task.tid != 0 {
            self.tasks.entry(task.tid).or_default().comm = task.comm;
        }
        self.who(task.tid)
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let index = cpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, Cpu::default());
        }
        &mut self.cpus[index]
    }

    fn switch<'a>(
        &mut self,
        (time_ns, cpu): (u64, u32),
        previous: Named,
        state: TaskState,
        next: Named,
        stack: Option<Frames<'a>>,
    ) -> Switch<'a> {
        let out = self.departure((time_ns, cpu), previous, state);
        let into = Arrival {
            who: self.named(next),
            delay: self.arrive(time_ns, next.tid),
        };
        self.cpu(cpu).switched_ns = Some(time_ns);
        Switch {
            time_ns,
            cpu,
            out,
            into,
            stack,
        }
    }

    fn departure(&mut self, (time_ns, cpu): (u64, u32), previous: Named, state: TaskState) -> Departure {
        let who = self.named(previous);
        let left = Some((time_ns, state));
        let since_ns = self.cpu(cpu).switched_ns;
        let (before, ready_ns) = if who.is_idle() {
            (std::mem::replace(&mut self.cpu(cpu).idle_before, left), None)
        } else {
            let task = self.tasks.entry(who.tid).or_default();
            task.standing = if state.is_runnable() {
                TaskActivity::Waiting {
                    from_ns: time_ns,
                    reason: Reason::Preempted,
                }
            } else {
                TaskActivity::Sleeping
            };
            (std::mem::replace(&mut task.before, left), task.ready_ns.take())
        };
        Departure {
            who,
            state,
            since_ns,
            before,
            ready_ns,
        }
    }

    /// A task begins to run on a CPU; returns the delay that ends with that.
    fn arrive(&mut self, time_ns: u64, tid: u32) -> Option<Delay> {
        let task = self.tasks.get_mut(&tid)?;
        match std::mem::replace(&mut task.standing, TaskActivity::Running) {
            TaskActivity::Unseen => Some(Delay {
                from_ns: time_ns,
                ns: 0,
                reason: Reason::Unseen,
            }),
            // None where clocks of two CPUs contradict each other.
            TaskActivity::Waiting { from_ns, reason } => {
                time_ns
                    .checked_sub(from_ns)
                    .map(|ns| Delay { from_ns, ns, reason })
            }
            // Its wakeup, or that it left, was not recorded.
            TaskActivity::Sleeping | TaskActivity::Running => None,
        }
    }

    /// A task is woken; gives whether a delay begins.
    fn wake(&mut self, time_ns: u64, kind: SchedulerEvent, woken: Named) -> bool {
        self.named(woken);
        let Some(task) = self.tasks.get_mut(&woken.tid) else {
            return false;
        };
        if kind == SchedulerEvent::WakeupNew {
            // Another task had this number before.
            task.before = None;
            task.pid = 0;
        }
        task.ready_ns.get_or_insert(time_ns);
        let begins = matches!(task.standing, TaskActivity::Unseen | TaskActivity::Sleeping);
        if begins {
            task.standing = TaskActivity::Waiting {
                from_ns: time_ns,
                reason: Reason::Woken,
            };
        }
        begins
    }
}
