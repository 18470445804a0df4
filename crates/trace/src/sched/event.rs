//! Records of the scheduler's events as values: where each field lies is found once for each event class.

use super::comm::Comm;
use super::state::TaskState;
use crate::event::EventClass;
use crate::record::Record;
use crate::value::{Frames, Value};

/// The events that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchedulerEvent {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Runtime,
    Rename,
    Fork,
}

/// A row of the table of events.
struct Row {
    name: &'static str,
    kind: SchedulerEvent,
    /// The fields that are read.
    fields: &'static [&'static str],
}

const WAKEUP: &[&str] = &["pid", "comm", "target_cpu"];

/// The events, each with the fields in the order in which [`Decoder`] reads them.
const ROWS: &[Row] = &[
    Row {
        name: "sched_switch",
        kind: SchedulerEvent::Switch,
        fields: &["prev_pid", "prev_comm", "prev_state", "next_pid", "next_comm"],
    },
    Row {
        name: "sched_waking",
        kind: SchedulerEvent::Waking,
        fields: WAKEUP,
    },
    Row {
        name: "sched_wakeup",
        kind: SchedulerEvent::Wakeup,
        fields: WAKEUP,
    },
    Row {
        name: "sched_wakeup_new",
        kind: SchedulerEvent::WakeupNew,
        fields: WAKEUP,
    },
    Row {
        name: "sched_migrate_task",
        kind: SchedulerEvent::Migrate,
        fields: &["pid", "comm", "orig_cpu", "dest_cpu"],
    },
    Row {
        name: "sched_stat_runtime",
        kind: SchedulerEvent::Runtime,
        fields: &["pid", "comm", "runtime"],
    },
    Row {
        name: "task_rename",
        kind: SchedulerEvent::Rename,
        fields: &["pid", "newcomm"],
    },
    Row {
        name: "sched_process_fork",
        kind: SchedulerEvent::Fork,
        fields: &["child_pid", "child_comm"],
    },
];

/// A task as a field names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) tid: u32,
    pub(super) comm: Comm,
}

/// A scheduler event, decoded from a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    Switch {
        previous: Named,
        state: TaskState,
        next: Named,
        stack: Option<Frames<'a>>,
    },
    /// A task was woken; by which event is `kind`.
    Wakeup {
        kind: SchedulerEvent,
        woken: Named,
        target_cpu: u32,
    },
    Migrate {
        task: Named,
        from: u32,
        to: u32,
    },
    Runtime {
        task: Named,
        ns: u64,
    },
    /// A task has this name from now on.
    Name {
        task: Named,
    },
}

/// Reads records of the scheduler's events.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoder {
    /// By event number: the event's name, and where its fields are; none for events that are not read.
    classes: Vec<Option<(String, Option<Fields>)>>,
}

#[derive(Clone, Debug)]
struct Fields {
    kind: SchedulerEvent,
    /// Indices, as [`ROWS`] has the names.
    at: Vec<usize>,
    stack: Option<usize>,
}

impl SchedulerEvent {
    /// Which of them an event class is.
    pub(super) fn of(event: &EventClass) -> Option<Self> {
        Fields::of(event).map(|fields| fields.kind)
    }
}

impl Fields {
    fn of(event: &EventClass) -> Option<Self> {
        let name = event.name.rsplit(':').next()?;
        let row = ROWS.iter().find(|row| row.name == name)?;
        let fields = event.layout.fields();
        let find = |name: &&str| fields.iter().position(|field| field.name == *name);
        Some(Self {
            kind: row.kind,
            at: row.fields.iter().map(find).collect::<Option<_>>()?,
            stack: find(&"kstack"),
        })
    }
}

impl Decoder {
    /// Decodes a record; none where it is of another event.
    pub(super) fn decode<'a>(&mut self, record: &Record<'a>) -> Option<Event<'a>> {
        let fields = self.fields(record.event)?;
        let all = record.event.layout.fields();
        let value = |index: usize| Some(record.value(all.get(*fields.at.get(index)?)?));
        let number = |index: usize| value(index)?.as_u64();
        let named = |number_at: usize, comm_at: usize| {
            Some(Named {
                tid: number(number_at)? as u32,
                comm: Comm::of(value(comm_at)?)?,
            })
        };
        Some(match fields.kind {
            SchedulerEvent::Switch => Event::Switch {
                previous: named(0, 1)?,
                state: TaskState(number(2)?),
                next: named(3, 4)?,
                stack: fields.stack.and_then(|index| match record.value(&all[index]) {
                    Value::Stack(frames) => Some(frames),
                    _ => None,
                }),
            },
            kind @ (SchedulerEvent::Waking | SchedulerEvent::Wakeup | SchedulerEvent::WakeupNew) => {
                Event::Wakeup {
                    kind,
                    woken: named(0, 1)?,
                    target_cpu: number(2)? as u32,
                }
            }
            SchedulerEvent::Migrate => Event::Migrate {
                task: named(0, 1)?,
                from: number(2)? as u32,
                to: number(3)? as u32,
            },
            SchedulerEvent::Runtime => Event::Runtime {
                task: named(0, 1)?,
                ns: number(2)?,
            },
            SchedulerEvent::Rename | SchedulerEvent::Fork => Event::Name { task: named(0, 1)? },
        })
    }

    fn fields(&mut self, event: &EventClass) -> Option<&Fields> {
        let id = usize::from(event.id.0);
        if self.classes.len() <= id {
            self.classes.resize(id + 1, None);
        }
        let known = &mut self.classes[id];
        // A number may get another meaning where traces are read one after the other.
        if !matches!(known, Some((name, _)) if *name == event.name) {
            *known = Some((event.name.clone(), Fields::of(event)));
        }
        known.as_ref()?.1.as_ref()
    }
}
