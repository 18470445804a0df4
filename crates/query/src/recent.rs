//! Recent results per thread, for reuse: where it depends on no field, the next one of that thread is of the same place.

use crate::background::Background;
use kestrel_trace::record::Record;

/// Places by thread, event and CPU, kept while no name of a thread changes: threads with the same low bits of their numbers take each other's room.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    of: PlaceInputs,
    place: usize,
}

/// Inputs on which a place depends.
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
    /// The place of a record in a table, by its number, as `find` knows it where it is not at hand.
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
