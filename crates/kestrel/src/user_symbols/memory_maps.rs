//! The executable memory of processes over time: who had what mapped when; names are not known here.

use kestrel_kernel::perf::side_band::{MemoryChange, MemoryEvent};
use kestrel_kernel::procfs::Mapped;
use kestrel_trace::user_symbol::Mapping;
use std::collections::{HashMap, VecDeque};

/// Processes that have ended and are remembered: their records may lie in the trace.
const ENDED: usize = 100_000;

/// Memory maps of all processes.
#[derive(Debug, Default)]
pub(super) struct MemoryMaps {
    processes: HashMap<u32, Vec<Mapping>>,
    /// Processes that ended, the longest ago first.
    ended: VecDeque<u32>,
    forgotten: u64,
}

impl MemoryMaps {
    /// Enters what /proc says is mapped, for records since `from_ns`.
    pub(super) fn found(&mut self, pid: u32, mapped: &Mapped, binary: u32, from_ns: u64) {
        self.processes.entry(pid).or_default().push(Mapping {
            from_ns,
            until_ns: u64::MAX,
            start: mapped.start,
            end: mapped.end,
            offset: mapped.offset,
            binary,
        });
    }

    /// Enters a change, which is later than those before it; `binary` is what was mapped, if something was.
    pub(super) fn change(&mut self, event: &MemoryEvent, binary: u32) {
        match &event.change {
            MemoryChange::Map(mapping) => self.processes.entry(event.pid).or_default().push(Mapping {
                from_ns: event.time_ns,
                until_ns: u64::MAX,
                start: mapping.start,
                end: mapping.end,
                offset: mapping.offset,
                binary,
            }),
            MemoryChange::Exec { .. } => self.close(event.pid, event.time_ns),
            MemoryChange::Fork { parent } if *parent != event.pid => self.fork(*parent, event),
            MemoryChange::Exit { thread } if *thread == event.pid => self.end(event.pid),
            // Threads come and go in the memory of their process.
            MemoryChange::Fork { .. } | MemoryChange::Exit { .. } => {}
        }
    }

    /// Ends all mappings of a process.
    fn close(&mut self, pid: u32, time_ns: u64) {
        for mapping in self.processes.get_mut(&pid).into_iter().flatten() {
            mapping.until_ns = mapping.until_ns.min(time_ns);
        }
    }

    /// A process begins with what its parent has mapped; an earlier one of its number has ended.
    fn fork(&mut self, parent: u32, event: &MemoryEvent) {
        self.close(event.pid, event.time_ns);
        let open = |mapping: &&Mapping| mapping.until_ns == u64::MAX;
        let inherited: Vec<Mapping> = self
            .processes
            .get(&parent)
            .into_iter()
            .flatten()
            .filter(open)
            .copied()
            .collect();
        let own = self.processes.entry(event.pid).or_default();
        own.extend(inherited.into_iter().map(|mapping| Mapping {
            from_ns: event.time_ns,
            ..mapping
        }));
    }

    /// Remembers a process that ended, as long as there is room: its last records come after this, and one of its number may begin before.
    fn end(&mut self, pid: u32) {
        self.ended.push_back(pid);
        if self.ended.len() > ENDED
            && let Some(first) = self.ended.pop_front()
            && !self.ended.contains(&first)
        {
            self.forgotten += u64::from(self.processes.remove(&first).is_some());
        }
    }

    /// Processes whose maps were dropped.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// All that a process had mapped at a time, the newest first; older ones may lie where newer ones do.
    pub(super) fn at(&self, pid: u32, time_ns: u64) -> impl Iterator<Item = &Mapping> {
        let mappings = self.processes.get(&pid).into_iter().flatten().rev();
        mappings.filter(move |mapping| (mapping.from_ns..mapping.until_ns).contains(&time_ns))
    }

    /// Mapping at an address of a process at a time: the newest that was mapped there.
    pub(super) fn locate(&self, pid: u32, time_ns: u64, address: u64) -> Option<Mapping> {
        let mappings = self.processes.get(&pid)?;
        mappings
            .iter()
            .rev()
            .find(|mapping| mapping.covers(time_ns, address))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::perf::side_band::CodeMapping;

    fn event(time_ns: u64, pid: u32, change: MemoryChange) -> MemoryEvent {
        MemoryEvent { time_ns, pid, change }
    }

    fn map(start: u64) -> MemoryChange {
        MemoryChange::Map(CodeMapping {
            start,
            end: start + 0x1000,
            ..CodeMapping::default()
        })
    }

    #[test]
    fn a_child_has_its_parents_memory_until_it_execs() {
        let mut maps = MemoryMaps::default();
        let exec = || MemoryChange::Exec { comm: "x".to_owned() };
        for (event, binary) in [
            (event(10, 1, map(0x1000)), 0),
            (event(20, 2, MemoryChange::Fork { parent: 1 }), 0),
            (event(25, 3, MemoryChange::Fork { parent: 3 }), 0),
            (event(30, 2, exec()), 0),
            (event(31, 2, map(0x1000)), 1),
            (event(40, 1, map(0x1000)), 2),
            (event(50, 2, MemoryChange::Fork { parent: 9 }), 0),
        ] {
            maps.change(&event, binary);
        }
        let binary = |pid, time| maps.locate(pid, time, 0x1800).map(|mapping| mapping.binary);
        assert_eq!(binary(1, 9), None);
        assert_eq!(binary(1, 10), Some(0));
        assert_eq!(binary(1, 40), Some(2));
        assert_eq!(binary(2, 19), None);
        assert_eq!(binary(2, 29), Some(0));
        assert_eq!(binary(2, 30), None);
        assert_eq!(binary(2, 49), Some(1));
        assert_eq!(binary(2, 50), None, "a new process of that number");
        assert_eq!(binary(3, 100), None);
    }
}
