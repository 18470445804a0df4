//! Names of threads, as the recorder or the records themselves tell them; no look at /proc happens here.

mod changes;
mod lttng_state;
mod name;

pub use changes::Changes;
pub use name::Name;

use crate::error::{Error, Result};
use crate::escape::shown_bytes;
use crate::event::EventClass;
use crate::layout::{Field, FieldType};
use crate::record::Record;
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Thread number → name (`comm`).
#[derive(Clone, Debug, Default)]
pub struct Processes {
    names: HashMap<u32, Name, RandomState>,
    /// Version of the names: another number after each change.
    version: u64,
    /// Names with the times from which they hold, of threads whose new names only later records have.
    changes: Arc<Changes>,
    /// The thread that the record learned last renames, and the name that it has in that record: its new one holds from the next record on.
    renamed: Option<(u32, Name)>,
}

/// The name of what runs where nothing else does.
const IDLE: &str = "<idle>";

/// The version after the next change of any names; that of none is 0.
static VERSION: AtomicU64 = AtomicU64::new(1);

impl PartialEq for Processes {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for Processes {}

impl Processes {
    /// The file within a trace's side folder: one line `TID COMM` each.
    pub const FILE: &'static str = "processes";

    /// Gives a thread a name.
    pub fn insert(&mut self, tid: u32, name: impl Into<Name>) {
        self.names.insert(tid, name.into());
        self.changed();
    }

    /// Takes the names that another knows: they count before those known so far.
    pub fn extend(&mut self, newer: Self) {
        self.names.extend(newer.names);
        if !newer.changes.is_empty() {
            self.changes = newer.changes;
        }
        self.changed();
    }

    /// Takes the names of threads of another machine: where both have one for a number, it is `ours/theirs`.
    pub(crate) fn join(&mut self, others: Self) {
        // Numbers of two machines: a change would be of either's thread.
        self.changes = Arc::default();
        for (tid, name) in others.names {
            match self.names.get_mut(&tid) {
                Some(known) if *known != name => {
                    *known = [known.bytes(), name.bytes()].join(&b'/').into();
                }
                Some(_) => {}
                None => {
                    self.names.insert(tid, name);
                }
            }
        }
        self.changed();
    }

    fn changed(&mut self) {
        self.version = VERSION.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that all names of these versions have in common: what was made of names with the same one still holds.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The name of a thread as text: its own, or its process's, or `<idle>` for 0. Bytes that are not UTF-8 are spelled out (`\xff`).
    pub fn name(&self, tid: u32, pid: u32) -> Option<&str> {
        match tid {
            0 => Some(IDLE),
            tid => self.known(tid, pid).map(Name::text),
        }
    }

    /// [`Processes::name`] as the kernel has it, which need not be UTF-8.
    pub fn name_bytes(&self, tid: u32, pid: u32) -> Option<&[u8]> {
        match tid {
            0 => Some(IDLE.as_bytes()),
            tid => self.known(tid, pid).map(Name::bytes),
        }
    }

    /// [`Processes::name`] as lines for people show it: what a terminal would obey, and what is not UTF-8, is spelled out.
    pub fn shown_name(&self, tid: u32, pid: u32) -> Option<Cow<'_, str>> {
        self.name_bytes(tid, pid).map(shown_bytes)
    }

    /// What is known of a thread, or of its process.
    pub fn known(&self, tid: u32, pid: u32) -> Option<&Name> {
        let own = |tid: u32| match &self.renamed {
            Some((renamed, old)) if *renamed == tid => Some(old),
            _ => self.names.get(&tid),
        };
        own(tid).or_else(|| own(pid))
    }

    /// Gives a thread a name that holds from the next record on; in this one it has its old name.
    fn rename(&mut self, tid: u32, old: &[u8], new: &[u8]) {
        if tid == 0 || new.is_empty() {
            return;
        }
        self.learn(tid, old);
        self.renamed = self.names.get(&tid).map(|old| (tid, old.clone()));
        self.learn(tid, new);
    }

    /// Begins the next record: a thread that was renamed has its new name.
    #[inline]
    fn next_record(&mut self) {
        if self.renamed.take().is_some() {
            self.changed();
        }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names by rising number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Name)> {
        let mut all: Vec<_> = self.names.iter().map(|(tid, name)| (*tid, name)).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// The bytes of its file, by rising number.
    pub fn to_lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (tid, name) in self.iter() {
            lines.extend_from_slice(format!("{tid} ").as_bytes());
            name.write_line(&mut lines);
        }
        lines
    }

    /// Reads what `to_lines` wrote.
    pub fn parse(lines: &[u8]) -> Result<Self> {
        let mut names = HashMap::default();
        for line in name::lines(lines) {
            let pair = name::number(line).and_then(|(tid, name)| Some((u32::try_from(tid).ok()?, name)));
            let Some((tid, name)) = pair else {
                return Err(Error::Side {
                    what: "the trace's names of processes".into(),
                    why: format!("{:?} is not a number and a name", String::from_utf8_lossy(line)),
                });
            };
            names.insert(tid, name.into());
        }
        let mut read = Self {
            names,
            ..Self::default()
        };
        read.changed();
        Ok(read)
    }

    /// The same names with the times of changes.
    #[must_use]
    pub fn with_changes(self, changes: Changes) -> Self {
        Self {
            changes: Arc::new(changes),
            ..self
        }
    }

    /// The times of changes.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Takes a name that a record of this time has, unless the thread had a newer one from then on.
    fn learn_at(&mut self, tid: u32, name: &[u8], time_ns: u64) {
        let changes = Arc::clone(&self.changes);
        let newer = changes.name_at(tid, time_ns).map(Name::bytes);
        self.learn(tid, newer.unwrap_or(name));
    }

    /// Gives a thread the name that it had at this time, where all changes are known.
    fn follow(&mut self, tid: u32, time_ns: u64) {
        let changes = Arc::clone(&self.changes);
        if let Some(name) = changes.name_at(tid, time_ns) {
            self.learn(tid, name.bytes());
        }
    }

    fn learn(&mut self, tid: u32, name: &[u8]) {
        if name.is_empty() || tid == 0 {
            return;
        }
        match self.names.get_mut(&tid) {
            Some(known) if known.bytes() == name => {}
            Some(known) => {
                *known = name.into();
                self.changed();
            }
            None => self.insert(tid, name),
        }
    }
}

/// Something made of a thread's name, kept while no name changes: a table in which threads whose numbers have the same low bits take each other's place.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerThread<T> {
    slots: Vec<Slot<T>>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    thread: (u32, u32),
    /// Of the names that it was made of; none has the greatest number.
    version: u64,
    made: T,
}

/// Slots of a [`PerThread`].
const SLOTS: usize = 256;

impl<T: Clone + Default> PerThread<T> {
    /// Cached result for the record's thread, by `make` where that was not done since a name changed; it is given the thread's name.
    #[inline]
    pub(crate) fn of(
        &mut self,
        record: &Record<'_>,
        processes: &Processes,
        make: impl FnOnce(&mut T, Option<&[u8]>),
    ) -> &T {
        if self.slots.is_empty() {
            let none = Slot {
                thread: (0, 0),
                version: u64::MAX,
                made: T::default(),
            };
            self.slots.resize(SLOTS, none);
        }
        let slot = &mut self.slots[record.tid as usize % SLOTS];
        let thread = (record.tid, record.pid);
        if (slot.thread, slot.version) != (thread, processes.version) {
            make(&mut slot.made, processes.name_bytes(record.tid, record.pid));
            (slot.thread, slot.version) = (thread, processes.version);
        }
        &slot.made
    }
}

/// Learns names of threads from records as they pass: pairs of fields such as `prev_pid`, `prev_comm`, or a lone `comm`.
#[derive(Clone, Debug, Default)]
pub struct Learner {
    /// By event number: the layout's identity, and the roles of its fields.
    roles: Vec<Option<(u64, Roles)>>,
    /// Names learned last, by the low bits of a thread's number.
    seen: Vec<Seen>,
    /// The changes of names, where they are wanted.
    noted: Option<Changes>,
}

/// A name that a thread has already: where no name was changed since, learning it again changes nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    tid: u32,
    name: [u8; COMM],
    version: u64,
}

#[derive(Clone, Debug, Default)]
struct Roles {
    /// A thread's number and its name.
    pairs: Vec<NamedThread>,
    /// Index of the field with the name of the thread that the record is about.
    own: Option<usize>,
    /// Index of the field with the name that a renamed thread had.
    old: Option<usize>,
    /// Index of the field with the path of the program that the thread runs from now on.
    file: Option<usize>,
    /// Whether there is any of these.
    any: bool,
}

/// Two fields, by their indices.
#[derive(Clone, Copy, Debug)]
struct NamedThread {
    tid: usize,
    name: usize,
    /// Offsets of both, where they lie as the kernel's events have them: four bytes, and a `char[16]`.
    plain: Option<(usize, usize)>,
}

/// Bytes of a thread's name, its NUL included (`TASK_COMM_LEN`).
const COMM: usize = 16;

/// Entries of [`Learner::seen`].
const SEEN: usize = 256;

/// The only event whose `filename` is what its thread runs from then on.
const EXEC: &str = "sched:sched_process_exec";
/// The event whose `newcomm` is a thread's name from the next record on: the kernel says so before it changes the name.
const RENAME: &str = "task:task_rename";
/// The event whose `comm` is the waiting thread's, its `pid` that of the process that is waited for.
const WAIT: &str = "sched:sched_process_wait";

impl Learner {
    /// A learner that notes from when on names hold, for [`Learner::changes`]. Its records are in the order of time.
    pub fn noting() -> Self {
        Self {
            noted: Some(Changes::default()),
            ..Self::default()
        }
    }

    /// What was noted; `last` are the names that threads had at the end.
    pub fn changes(self, last: &Processes) -> Changes {
        let mut noted = self.noted.unwrap_or_default();
        for (tid, name) in &last.names {
            noted.note_last(*tid, name);
        }
        noted.kept()
    }

    /// Learns names from `record` into `processes`.
    #[inline]
    pub fn learn(&mut self, record: &Record<'_>, processes: &mut Processes) {
        processes.next_record();
        if processes.changes.is_complete() {
            processes.follow(record.tid, record.time_ns);
        }
        let known = self.roles.get(usize::from(record.event.id.0));
        match known {
            Some(Some((identity, roles))) if *identity == record.event.layout.identity() => {
                if !roles.any {
                    return;
                }
            }
            _ => self.prepare(record.event),
        }
        self.learn_names(record, processes);
    }

    #[cold]
    fn prepare(&mut self, event: &EventClass) {
        let id = usize::from(event.id.0);
        if self.roles.len() <= id {
            self.roles.resize(id + 1, None);
        }
        self.roles[id] = Some((event.layout.identity(), Roles::of(event)));
        self.seen.resize(SEEN, Seen::default());
    }

    fn learn_names(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let Some(Some((_, roles))) = self.roles.get(usize::from(record.event.id.0)) else {
            return;
        };
        let fields = record.event.layout.fields();
        let text = |index: usize| match record.value(&fields[index]) {
            crate::value::Value::Text(name) => name,
            _ => &[],
        };
        let time_ns = record.time_ns;
        let is_change = record.event.name == RENAME;
        let old = roles.old.map_or(&[][..], text);
        // A name that was learned may be another a moment later, without a record that says so.
        let is_timed = self.noted.is_some() || !processes.changes.is_empty();
        let noted = &mut self.noted;
        let mut learn = |processes: &mut Processes, tid: u32, name: &[u8]| {
            if let Some(noted) = noted {
                noted.note(tid, name, time_ns, is_change);
            }
            match is_change {
                true => processes.rename(tid, old, name),
                false => processes.learn_at(tid, name, time_ns),
            }
        };
        for pair in &roles.pairs {
            let plain = pair.plain.and_then(|(tid, name)| {
                let tid = u32::from_le_bytes(*record.bytes.get(tid..)?.first_chunk()?);
                Some((tid, *record.bytes.get(name..)?.first_chunk::<COMM>()?))
            });
            if let Some((tid, name)) = plain.filter(|_| !is_timed) {
                let seen = &mut self.seen[tid as usize % SEEN];
                if (seen.tid, seen.name, seen.version) == (tid, name, processes.version) {
                    continue;
                }
                learn(processes, tid, text(pair.name));
                (seen.tid, seen.name, seen.version) = (tid, name, processes.version);
            } else if let Some(tid) = record.value(&fields[pair.tid]).as_u64() {
                learn(processes, tid as u32, text(pair.name));
            }
        }
        if let Some(own) = roles.own {
            learn(processes, record.tid, text(own));
        }
        if let Some(file) = roles.file.filter(|_| record.event.name == EXEC) {
            // As `begin_new_exec` in fs/exec.c: the last part of the path, which `strscpy` cuts to the name's room.
            let name = text(file).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if !name.is_empty() {
                let name = &name[..name.len().min(COMM - 1)];
                if let Some(noted) = noted {
                    noted.note(record.tid, name, time_ns, true);
                }
                processes.learn(record.tid, name);
            }
        }
    }
}

/// Whether records of an event name threads, so that the names of threads are learned from their fields.
pub(crate) fn names_threads(event: &EventClass) -> bool {
    let roles = Roles::of(event);
    !roles.pairs.is_empty() || roles.own.is_some() || roles.file.is_some() && event.name == EXEC
}

impl Roles {
    fn of(event: &EventClass) -> Self {
        let fields = event.layout.fields();
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let is_text = |index: usize| {
            matches!(
                fields[index].ty,
                FieldType::CharArray { .. } | FieldType::String { .. }
            )
        };
        let mut roles = Self::default();
        for (pid, comm) in [
            ("pid", "comm"),
            ("prev_pid", "prev_comm"),
            ("next_pid", "next_comm"),
            ("parent_pid", "parent_comm"),
            ("child_pid", "child_comm"),
            ("pid", "newcomm"),
            lttng_state::FIELDS,
        ] {
            if (pid, comm) == lttng_state::FIELDS && event.name != lttng_state::EVENT {
                continue;
            }
            let Some(comm) = find(comm).filter(|index| is_text(*index)) else {
                continue;
            };
            match find(pid).filter(|_| event.name != WAIT) {
                Some(pid) => roles.pairs.push(NamedThread {
                    tid: pid,
                    name: comm,
                    plain: plain(&fields[pid], &fields[comm]),
                }),
                None if pid == "pid" => roles.own = Some(comm),
                None => {}
            }
        }
        roles.old = find("oldcomm").filter(|index| is_text(*index));
        roles.file = find("filename").filter(|index| is_text(*index));
        roles.any = !roles.pairs.is_empty() || roles.own.is_some() || roles.file.is_some();
        roles
    }
}

/// Offsets of a number of four bytes and of a name of [`COMM`] bytes.
fn plain(tid: &Field, name: &Field) -> Option<(usize, usize)> {
    let kinds = (&tid.ty, &name.ty);
    let (FieldType::Integer { size: 4, .. }, FieldType::CharArray { size }) = kinds else {
        return None;
    };
    (*size as usize == COMM).then_some((tid.offset() as usize, name.offset() as usize))
}

#[cfg(test)]
mod tests;
