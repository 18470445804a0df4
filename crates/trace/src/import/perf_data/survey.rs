//! The first pass over a `perf.data` file: names of threads, mappings of their memory, and records that are not shown.

use super::super::input::{Input, text_of};
use super::features::{Attributes, Features};
use super::records::{Record, Records, kind as stream};
use super::samples::Ids;
use crate::convert::perf_data::{about, kind};
use crate::process::Processes;
use crate::tasks::Tasks;
use crate::user_symbol::{Binary, Mapping, UserSymbols};
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Result of the first pass.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) features: Features,
    pub(super) processes: Processes,
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

impl Survey {
    pub(super) fn new(features: Features, mut records: Records) -> io::Result<Self> {
        let mut it = Self {
            features,
            processes: Processes::default(),
            tasks: Tasks::default(),
            user: UserSymbols::default(),
            samples: 0,
            kernel_symbol: None,
            binaries: HashMap::new(),
            mappings: 0,
            forgotten: 0,
            unseen: BTreeMap::new(),
        };
        let mut ids = Ids::new(&it.features.attributes);
        while let Some(record) = records.next()? {
            if record.kind == stream::ATTRIBUTES {
                it.features.attributes_record(records.body(), record.at);
                ids = Ids::new(&it.features.attributes);
                continue;
            }
            it.take(record, records.body(), &ids);
        }
        if let Some(tracing) = &mut it.features.tracing {
            // Names from records are newer.
            let mut names = std::mem::take(&mut tracing.processes);
            names.extend(std::mem::take(&mut it.processes));
            it.processes = names;
        }
        Ok(it)
    }

    fn take(&mut self, record: Record, body: &[u8], ids: &Ids) {
        match record.kind {
            kind::SAMPLE => self.samples += 1,
            kind::COMM => _ = self.comm(record, body, ids),
            kind::MMAP | kind::MMAP2 => _ = self.mapping(record, body, ids),
            kind::FORK => _ = self.fork(body),
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

    /// The time that stands at the end of a record that is no sample.
    fn time(body: &[u8], ids: &Ids, attributes: &[Attributes]) -> u64 {
        ids.trailer(body, attributes).map_or(0, |trailer| trailer.time_ns)
    }

    fn comm(&mut self, record: Record, body: &[u8], ids: &Ids) -> Option<()> {
        let mut input = Input::new(body);
        let (pid, tid) = (input.u32()?, input.u32()?);
        self.tasks.insert(tid, pid);
        let name = input.text()?;
        if record.about & about::EXEC != 0 {
            let time_ns = Self::time(body, ids, &self.features.attributes);
            self.user.close(pid, time_ns);
        }
        if tid != 0 {
            self.processes.insert(tid, name);
        }
        Some(())
    }

    fn fork(&mut self, body: &[u8]) -> Option<()> {
        let mut input = Input::new(body);
        let (pid, parent, tid, parent_tid) = (input.u32()?, input.u32()?, input.u32()?, input.u32()?);
        let time_ns = input.u64()?;
        self.tasks.insert(tid, pid);
        if let Some(name) = self.processes.name(parent_tid, parent).map(str::to_owned)
            && parent_tid != 0
        {
            self.processes.insert(tid, name);
        }
        if pid != parent {
            // A number may have been another process's before.
            self.user.close(pid, time_ns);
            let inherited: Vec<Mapping> = self
                .user
                .mappings()
                .filter(|(of, mapping)| *of == parent && mapping.until_ns == u64::MAX)
                .map(|(_, mapping)| Mapping {
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

    fn mapping(&mut self, record: Record, body: &[u8], ids: &Ids) -> Option<()> {
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
        let time_ns = Self::time(body, ids, &self.features.attributes);
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
