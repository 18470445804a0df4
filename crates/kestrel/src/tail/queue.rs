//! Queue of records read from many rings, which puts them in the order of their times before they are shown.

use kestrel_catalog::Result;
use kestrel_hook::buffer::cursor::View;
use kestrel_trace::ctf::packet::{Packet, Page};
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::HEADER;
use kestrel_trace::record::Record;
use kestrel_trace::stack_pieces::StackPieces;
use std::collections::BTreeMap;

/// Records that were read but not shown yet, because earlier ones may still come from other rings.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Vec<Waiting>,
    pieces: StackPieces,
    /// Number of long records of which pieces were lost, by event and CPU.
    torn: BTreeMap<(u16, u32), u64>,
}

#[derive(Debug)]
struct Waiting {
    time_ns: u64,
    cpu: u32,
    bytes: Vec<u8>,
}

/// A page copied out of a ring.
pub(crate) struct Taken {
    pub(crate) bytes: Box<Page>,
    /// Offset of the first record in the page that its reader has not seen before.
    from: u32,
    position: u64,
}

impl From<View<'_>> for Taken {
    fn from(view: View<'_>) -> Self {
        Self {
            bytes: Box::new(*view.bytes),
            from: view.from,
            position: view.position,
        }
    }
}

impl Queue {
    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of records lost so far because some of their pieces were lost.
    pub(crate) fn torn(&self) -> u64 {
        self.torn.values().sum()
    }

    /// Number of torn records, by event and CPU.
    pub(crate) fn torn_by_event(&self) -> &BTreeMap<(u16, u32), u64> {
        &self.torn
    }

    /// Adds the new records of a page that are `wanted`.
    pub(crate) fn take(
        &mut self,
        table: &EventTable,
        page: &Taken,
        wanted: &mut dyn FnMut(&Record<'_>, u64) -> bool,
    ) {
        let Ok(packet) = Packet::parse(page.bytes.as_slice()) else {
            return;
        };
        let mut at = HEADER;
        for record in packet.records(table).map_while(std::result::Result::ok) {
            if at >= page.from && wanted(&record, page.position + u64::from(at)) {
                self.waiting.push(Waiting {
                    time_ns: record.time_ns,
                    cpu: record.cpu,
                    bytes: record.bytes.to_vec(),
                });
            }
            at += record.bytes.len() as u32;
        }
    }

    /// Adds a record that the reader of the rings made itself.
    pub(crate) fn put(&mut self, time_ns: u64, bytes: Vec<u8>) {
        self.waiting.push(Waiting {
            time_ns,
            cpu: 0,
            bytes,
        });
    }

    /// Shows the records up to the time `until`, oldest first; returns their number.
    pub(crate) fn emit(
        &mut self,
        table: &EventTable,
        until: u64,
        show: &mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<usize> {
        self.waiting.sort_by_key(|w| w.time_ns);
        let ready = self.waiting.partition_point(|w| w.time_ns <= until);
        let mut shown = 0;
        for w in self.waiting.drain(..ready) {
            let Ok(record) = table.record(&w.bytes, w.cpu, w.time_ns) else {
                continue;
            };
            if record.is_stack_piece() {
                self.pieces.take(&record);
                continue;
            }
            let place = (record.event.id.0, record.cpu);
            match self.pieces.join(record) {
                Some(record) => {
                    shown += 1;
                    show(&record)?;
                }
                None => *self.torn.entry(place).or_default() += 1,
            }
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_trace::action::Action;
    use kestrel_trace::event::{EventClass, EventId};
    use kestrel_trace::layout::{FieldType, Layout};

    /// A long record of thread 8 at a time, of event 1; its pieces are not there.
    fn waiting(time_ns: u64, cpu: u32) -> Waiting {
        let words = [1, 7 | 8 << 32, 5, 5016];
        let bytes = words.map(u64::to_le_bytes).concat();
        Waiting { time_ns, cpu, bytes }
    }

    #[test]
    fn long_records_without_their_pieces_are_lost_at_their_event_and_cpu() {
        let class = EventClass {
            id: EventId(1),
            name: "end".to_owned(),
            kind: "end".to_owned(),
            layout: Layout::new([("value0".to_owned(), FieldType::CharArray { size: 5000 })]),
            action: Some(Action {
                verb: "print".to_owned(),
                text: String::new(),
            }),
            print: None,
        };
        let table = EventTable::new([class]);
        let mut queue = Queue {
            waiting: vec![waiting(3, 0), waiting(1, 2), waiting(2, 2), waiting(9, 2)],
            ..Queue::default()
        };
        assert_eq!(queue.emit(&table, 5, &mut |_| Ok(())).unwrap(), 0);
        let lost = BTreeMap::from([((1, 0), 1), ((1, 2), 2)]);
        assert_eq!((queue.torn(), queue.torn_by_event()), (3, &lost));
        assert!(!queue.is_empty());
    }
}
