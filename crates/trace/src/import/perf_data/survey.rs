//! The first pass over a `perf.data` file: names of threads, mappings of their memory, and records that are not shown.

use super::super::input::{Input, text_of};
use super::features::Features;
use super::records::{Record, Records, kind as stream};
use super::samples::Ids;
use crate::convert::perf_data::{about, kind};
use crate::process::{Changes, Name, Processes};
use crate::tasks::Tasks;
use crate::user_symbol::{Binary, Mapping, UserSymbols};
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Result of the first pass.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) features: Features,
    pub(super) processes: Processes,
    /// Names of threads, each with the time from which it held.
    renames: Changes,
    pub(super) tasks: Tasks,
    pub(super) user: UserSymbols,
    pub(super) samples: u64,
    /// The symbol of the kernel that perf names the kernel's mapping by, and its address.
    pub(super) kernel_symbol: Option<(String, u64)>,
    binaries: HashMap<(String, Option<String>), u32>,
    mappings: usize,
    forgotten: u64,
    /// Records that are not shown: number, and offset of the first of them.
    unseen: BTreeMap<u32, (u64, u64)>,
}

/// Names of records that are not shown, though people may look for them.
const UNSEEN: &[(u32, &str)] = &[
    (kind::READ, "READ (counts of threads)"),
    (kind::AUX, "AUX (places of processor traces)"),
    (stream::AUXTRACE, "AUXTRACE (processor traces)"),
    (kind::SWITCH, "SWITCH"),
    (kind::SWITCH_CPU_WIDE, "SWITCH_CPU_WIDE"),
    (kind::TEXT_POKE, "TEXT_POKE (code that was changed)"),
];

/// Path of the kernel's mapping, before the name of a symbol.
const KERNEL: &str = "[kernel.kallsyms]";
/// Most mappings of memory that are kept: a hundred bytes each.
const MAX: usize = 1 << 20;
/// Most types of records that are distinguished.
const TYPES: usize = 64;

/// Records that change what is known of tasks. Those of several CPUs stand in the file in no order: a child's COMM, of the CPU that it ran on, before the FORK that made it.
const TASKS: [u32; 4] = [kind::COMM, kind::FORK, kind::MMAP, kind::MMAP2];
/// Bytes of such records that wait to be put in order.
const HELD: usize = 64 << 20;

/// Changes of tasks, in the order of the file.
#[derive(Debug, Default)]
struct TaskChanges {
    all: Vec<TaskChange>,
    bytes: usize,
    latest_ns: u64,
}

#[derive(Debug)]
struct TaskChange {
    record: Record,
    time_ns: u64,
    body: Vec<u8>,
}

impl TaskChanges {
    /// Takes one that happened at this time; 0 is that of a record without one, which holds from its place in the file on.
    fn put(&mut self, record: Record, body: &[u8], time_ns: u64) {
        self.latest_ns = self.latest_ns.max(time_ns);
        let time_ns = if time_ns == 0 { self.latest_ns } else { time_ns };
        self.bytes += size_of::<TaskChange>() + body.len();
        self.all.push(TaskChange {
            record,
            time_ns,
            body: body.to_vec(),
        });
    }
}

impl Survey {
    /// No records yet.
    fn of(features: Features) -> Self {
        Self {
            features,
            processes: Processes::default(),
            renames: Changes::default(),
            tasks: Tasks::default(),
            user: UserSymbols::default(),
            samples: 0,
            kernel_symbol: None,
            binaries: HashMap::new(),
            mappings: 0,
            forgotten: 0,
            unseen: BTreeMap::new(),
        }
    }

    pub(super) fn new(features: Features, mut records: Records) -> io::Result<Self> {
        let mut it = Self::of(features);
        let mut ids = Ids::new(&it.features.attributes);
        let mut changes = TaskChanges::default();
        while let Some(record) = records.next()? {
            if record.kind == stream::ATTRIBUTES {
                it.features.attributes_record(records.body(), record.at);
                ids = Ids::new(&it.features.attributes);
                continue;
            }
            if !TASKS.contains(&record.kind) {
                it.take(record, records.body());
                continue;
            }
            let time_ns = it.time(record, records.body(), &ids);
            changes.put(record, records.body(), time_ns);
            if changes.bytes > HELD {
                it.apply(&mut changes);
            }
        }
        it.apply(&mut changes);
        it.processes = it.processes.with_changes(it.renames);
        it.renames = Changes::default();
        if let Some(tracing) = &mut it.features.tracing {
            // Names from records are newer.
            let mut names = std::mem::take(&mut tracing.processes);
            names.extend(std::mem::take(&mut it.processes));
            it.processes = names;
        }
        Ok(it)
    }

    /// Applies changes of tasks in the order of their times.
    fn apply(&mut self, changes: &mut TaskChanges) {
        changes.bytes = 0;
        let mut all = std::mem::take(&mut changes.all);
        all.sort_by_key(|change| change.time_ns);
        for TaskChange {
            record,
            time_ns,
            body,
        } in all
        {
            match record.kind {
                kind::COMM => _ = self.comm(record, &body, time_ns),
                kind::FORK => _ = self.fork(&body, time_ns),
                _ => _ = self.mapping(record, &body, time_ns),
            }
        }
    }

    fn take(&mut self, record: Record, body: &[u8]) {
        match record.kind {
            kind::SAMPLE => self.samples += 1,
            stream::TRACING_DATA => self.features.tracing(body, record.at),
            stream::FEATURE => self.features.feature_record(body, record.at),
            stream::EVENT_UPDATE => self.features.update_record(body),
            other => {
                let is_unseen = !kind::is_known(other) || UNSEEN.iter().any(|(kind, _)| *kind == other);
                if is_unseen && (self.unseen.len() < TYPES || self.unseen.contains_key(&other)) {
                    let (count, _) = self.unseen.entry(other).or_insert((0, record.at));
                    *count += 1;
                }
            }
        }
    }

    /// The time of a change of a task: its own, or what stands at the end of a record that is no sample.
    fn time(&self, record: Record, body: &[u8], ids: &Ids) -> u64 {
        if record.kind == kind::FORK {
            let time = body.get(16..).and_then(|rest| rest.first_chunk());
            return time.map_or(0, |time| u64::from_le_bytes(*time));
        }
        let trailer = ids.trailer(body, &self.features.attributes);
        trailer.map_or(0, |trailer| trailer.time_ns)
    }

    fn comm(&mut self, record: Record, body: &[u8], time_ns: u64) -> Option<()> {
        let mut input = Input::new(body);
        let (pid, tid) = (input.u32()?, input.u32()?);
        self.tasks.insert(tid, pid);
        let name = input.bytes_to_nul()?.into();
        if record.about & about::EXEC != 0 {
            self.user.close(pid, time_ns);
        }
        self.rename(tid, name, time_ns);
        Some(())
    }

    fn rename(&mut self, tid: u32, name: Name, time_ns: u64) {
        if tid != 0 {
            self.renames.tell(tid, &name, time_ns);
            self.processes.insert(tid, name);
        }
    }

    fn fork(&mut self, body: &[u8], time_ns: u64) -> Option<()> {
        let mut input = Input::new(body);
        let (pid, parent, tid, parent_tid) = (input.u32()?, input.u32()?, input.u32()?, input.u32()?);
        self.tasks.insert(tid, pid);
        if let Some(name) = self.processes.known(parent_tid, parent).cloned()
            && parent_tid != 0
        {
            self.rename(tid, name, time_ns);
        }
        if pid != parent {
            // A number may have been another process's before.
            self.user.close(pid, time_ns);
            let inherited: Vec<Mapping> = self
                .user
                .mappings_of(parent)
                .filter(|mapping| mapping.until_ns == u64::MAX)
                .map(|mapping| Mapping {
                    from_ns: time_ns,
                    ..*mapping
                })
                .collect();
            for mapping in inherited {
                self.add(pid, mapping);
            }
        }
        Some(())
    }

    fn mapping(&mut self, record: Record, body: &[u8], time_ns: u64) -> Option<()> {
        let mut input = Input::new(body);
        let (pid, _tid) = (input.u32()?, input.u32()?);
        let (start, size, offset) = (input.u64()?, input.u64()?, input.u64()?);
        let is_long = record.kind == kind::MMAP2;
        let file = if is_long { input.take(24)? } else { &[] };
        if is_long {
            input.take(8)?;
        }
        // Not the kernel's, nor data.
        if record.about & about::MODE != about::USER || record.about & about::DATA != 0 {
            // Its place is the symbol's address; that is 0 where the kernel hides addresses.
            let path = text_of(input.rest());
            let symbol = path
                .strip_prefix(KERNEL)
                .filter(|name| !name.is_empty() && offset != 0);
            if let Some(name) = symbol {
                self.kernel_symbol = Some((name.to_owned(), offset));
            }
            return None;
        }
        let mut build_id = None;
        if is_long && record.about & about::BUILD_ID != 0 {
            let length = usize::from(*file.first()?).min(20);
            let id = file.get(4..4 + length)?;
            build_id = Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        let path = text_of(input.rest());
        let binary = self.binary(path, build_id);
        let end = start.checked_add(size)?;
        self.add(
            pid,
            Mapping {
                from_ns: time_ns,
                until_ns: u64::MAX,
                start,
                end,
                offset,
                binary,
            },
        );
        Some(())
    }

    fn add(&mut self, pid: u32, mapping: Mapping) {
        if self.mappings == MAX {
            self.forgotten += 1;
            return;
        }
        self.mappings += 1;
        self.user.add_mapping(pid, mapping);
    }

    fn binary(&mut self, path: String, build_id: Option<String>) -> u32 {
        let key = (path, build_id);
        if let Some(known) = self.binaries.get(&key) {
            return *known;
        }
        let number = self.user.add_binary(Binary {
            path: key.0.clone(),
            build_id: key.1.clone(),
            ..Binary::default()
        });
        self.binaries.insert(key, number);
        number
    }

    /// Remarks about what is not shown.
    pub(super) fn remarks(&self) -> Vec<String> {
        let unseen = self.unseen.iter().map(|(number, (count, at))| {
            let name = UNSEEN.iter().find(|(kind, _)| kind == number);
            let name = name.map_or_else(
                || format!("of type {number}, which is not known"),
                |(_, name)| (*name).to_owned(),
            );
            format!("{count} records {name} are not shown, the first at byte {at}")
        });
        let mut all: Vec<String> = unseen.collect();
        if self.forgotten > 0 {
            all.push(format!(
                "{} mappings of memory are too many: addresses in them have no names",
                self.forgotten
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of these words, then bytes.
    fn body(words: &[u32], rest: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend_from_slice(rest);
        body
    }

    fn record(kind: u32, about: u16) -> Record {
        Record { kind, about, at: 0 }
    }

    #[test]
    fn changes_of_tasks_are_taken_in_the_order_of_their_times() {
        let mut survey = Survey::of(Features::default());
        let mut changes = TaskChanges::default();
        let mapped = |start: u64, path: &[u8]| {
            let numbers = [start, 0x1000, 0].map(u64::to_le_bytes).concat();
            body(&[7, 7], &[&numbers, path].concat())
        };
        // The CPU of the child comes first in the file: it executes `cat` there. Its parent's CPU tells later of what was before: that it forked.
        changes.put(record(kind::COMM, 0), &body(&[1, 1], b"sh\0"), 0);
        changes.put(record(kind::COMM, about::EXEC), &body(&[7, 7], b"cat\0"), 50);
        changes.put(
            record(kind::MMAP, about::USER),
            &mapped(0x4000, b"/bin/cat\0"),
            51,
        );
        changes.put(
            record(kind::FORK, 0),
            &body(&[7, 1, 7, 1], &40u64.to_le_bytes()),
            40,
        );
        survey.apply(&mut changes);
        assert_eq!(survey.processes.name(7, 7), Some("cat"));
        let mapping = survey.user.mappings_of(7).next().unwrap();
        assert_eq!((mapping.from_ns, mapping.until_ns), (51, u64::MAX));
        // One without a time holds from its place in the file on.
        changes.put(record(kind::COMM, 0), &body(&[7, 7], b"tac\0"), 0);
        survey.apply(&mut changes);
        assert_eq!(survey.processes.name(7, 7), Some("tac"));
        let names = survey.renames.to_lines();
        assert_eq!(names, b"0 0 complete\n1 0 sh\n7 40 sh\n7 50 cat\n7 51 tac\n");
    }
}
