//! A cache of the groups of recent records: a group whose keys depend on no field is the same for the next record of the same event, thread and CPU.

use crate::background::Background;
use kestrel_trace::record::Record;

/// Cache of groups by thread, event and CPU, valid until a thread's name changes. Threads with the same low bits of their numbers share a slot.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    of: PlaceInputs,
    place: usize,
}

/// Inputs that a group depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlaceInputs {
    version: u64,
    tid: u32,
    pid: u32,
    cpu: u32,
    event: u16,
    table: u32,
}

const SLOTS: usize = 512;

impl Default for Recent {
    fn default() -> Self {
        let nothing = Slot {
            of: PlaceInputs {
                // No names have this version.
                version: u64::MAX,
                tid: 0,
                pid: 0,
                cpu: 0,
                event: 0,
                table: 0,
            },
            place: 0,
        };
        Self {
            slots: vec![nothing; SLOTS],
        }
    }
}

impl Recent {
    /// The index of a record's group in a table; `find` is asked where it is not in the cache.
    #[inline]
    pub(crate) fn place(
        &mut self,
        table: u32,
        record: &Record<'_>,
        background: &Background,
        find: impl FnOnce() -> usize,
    ) -> usize {
        let of = PlaceInputs {
            version: background.processes.version(),
            tid: record.tid,
            pid: record.pid,
            cpu: record.cpu,
            event: record.event.id.0,
            table,
        };
        let mixed = of.tid ^ u32::from(of.event) << 3 ^ of.cpu << 5 ^ table << 6;
        let slot = &mut self.slots[mixed as usize % SLOTS];
        if slot.of != of {
            *slot = Slot { of, place: find() };
        }
        slot.place
    }
}
