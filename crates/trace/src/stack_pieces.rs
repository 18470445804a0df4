//! Copies of stacks that are longer than a record has room for: what lies behind the part that the record holds comes before it, in records of their own
//! (*pieces*) of one number, which no event has. They are no events: nothing counts them, and no reader shows them.
//!
//! ```text
//! piece   header, pid, tid | address u64, taken u64, count u16 | count bytes of the stack from that address on
//! …       the next one begins where this one ends
//! record  header, pid, tid | …                                 | ip, sp, bp, taken, the stack's bytes from sp on
//! ```
//!
//! `taken` is the time at which the copy was begun, so that pieces meet their record whatever comes between, an interrupt's own copy of the same stack
//! included. A piece that found no room ends the copy: the frames behind are truncated, as where the copy itself ends.
//!
//! Records that are longer than a page ([`EventClass::is_long`]: what programs print, with long strings) come as pieces from their first byte to their last,
//! whose addresses count from 0. Behind them comes a record of their number that says when they were taken and how many bytes they are:
//!
//! ```text
//! record  header, pid, tid | taken u64, size u64
//! ```

use crate::event::{EventClass, EventId};
use crate::layout::{Base, FieldType, Layout, PAYLOAD};
use crate::record::Record;
use crate::value::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

/// The number of pieces in the headers of records.
pub const PIECE: EventId = EventId(u16::MAX);
/// Most bytes of the stack in one piece: four of them fill a page of a ring.
pub const PIECE_BYTES: u32 = 960;
/// Most bytes of a long record in one piece: a page of a ring, with what the piece has before them.
pub const LONG_PIECE: u32 = 3968;
/// Most bytes of a copied stack, those of its record included: perf's limit.
pub const MAX: u32 = 65_528;
/// Bytes of a record whose content is in pieces.
pub const LONG: u32 = 32;
/// Where in such a record the time of its pieces is, and how many bytes they are.
pub const LONG_TAKEN: u32 = 16;
/// See [`LONG_TAKEN`].
pub const LONG_SIZE: u32 = 24;
/// Bytes that are copied where no number is given: perf's default.
pub const USUAL: u32 = 8192;

/// Names of a piece's fields.
const FIELDS: [&str; 3] = ["address", "taken", "stack"];
/// Copies that wait for their records: each is a few moments old, of as many as CPUs take at once, or its record was lost.
const WAITING: usize = 512;

/// Event class of pieces, for readers of the trace.
pub static CLASS: LazyLock<EventClass> = LazyLock::new(|| {
    let number = FieldType::Integer {
        size: 8,
        signed: false,
        base: Base::Hexadecimal,
    };
    let types = [number.clone(), number, FieldType::Bytes { max: LONG_PIECE }];
    EventClass {
        id: PIECE,
        name: "kestrel:stack_piece".to_owned(),
        kind: "stack_piece".to_owned(),
        layout: Layout::new(FIELDS.map(str::to_owned).into_iter().zip(types)),
        action: None,
        print: None,
    }
});

/// The records that hold what a record's own part of a stack leaves out, of the time of that record.
pub(crate) fn pieces_of(record: &Record<'_>) -> Vec<Vec<u8>> {
    let Some(copy) = record.stack_copy().filter(|_| !record.rest.is_empty()) else {
        return Vec::new();
    };
    let places: Vec<usize> = CLASS
        .layout
        .fields()
        .iter()
        .map(|field| field.offset() as usize)
        .collect();
    let [address, taken, count] = places.as_slice() else {
        return Vec::new();
    };
    let fixed = CLASS.layout.fixed_end() as usize;
    let mut at = copy.sp.wrapping_add(copy.stack.len() as u64);
    let mut pieces = Vec::new();
    for part in copy.rest.chunks(PIECE_BYTES as usize) {
        let mut piece = vec![0; fixed];
        let mut put = |at: usize, bytes: &[u8]| piece[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(u64::from(PIECE.0) | record.time_ns << 16).to_le_bytes());
        put(8, &record.pid.to_le_bytes());
        put(12, &record.tid.to_le_bytes());
        put(*address, &at.to_le_bytes());
        put(*taken, &copy.taken.to_le_bytes());
        put(*count, &(part.len() as u16).to_le_bytes());
        piece.extend(part);
        piece.resize(piece.len().next_multiple_of(8), 0);
        pieces.push(piece);
        at = at.wrapping_add(part.len() as u64);
    }
    pieces
}

/// Pieces that wait for their record.
#[derive(Clone, Debug, Default)]
pub struct StackPieces {
    /// By thread and time.
    copies: HashMap<(u32, u64), Copied>,
    order: VecDeque<(u32, u64)>,
    /// Bytes of the stack of the record that was handed out last.
    current: Vec<u8>,
}

/// Bytes of a stack, and where the first one lies.
#[derive(Clone, Debug)]
struct Copied {
    address: u64,
    bytes: Vec<u8>,
}

impl Record<'_> {
    /// Whether it is no event, but a piece of a stack that a later record has the beginning of.
    pub fn is_stack_piece(&self) -> bool {
        self.event.id == PIECE
    }
}

impl StackPieces {
    /// Takes a piece.
    pub fn take(&mut self, record: &Record<'_>) {
        let number = |name| match record.get(name) {
            Some(Value::Unsigned { value, .. }) => Some(value),
            _ => None,
        };
        let [address, taken, stack] = FIELDS;
        let (Some(address), Some(taken)) = (number(address), number(taken)) else {
            return;
        };
        let Some(Value::Text(bytes)) = record.get(stack) else {
            return;
        };
        let key = (record.tid, taken);
        if let Some(copied) = self.copies.get_mut(&key) {
            // Behind a gap no frame could be found.
            if copied.end() == Some(address) && copied.bytes.len() + bytes.len() <= MAX as usize {
                copied.bytes.extend_from_slice(bytes);
            }
            return;
        }
        if self.order.len() >= WAITING
            && let Some(oldest) = self.order.pop_front()
        {
            self.copies.remove(&oldest);
        }
        self.order.push_back(key);
        let bytes = bytes.to_vec();
        self.copies.insert(key, Copied { address, bytes });
    }

    /// The record with what pieces have of it; nothing of a long one whose pieces are not all there.
    pub fn join<'r>(&'r mut self, record: Record<'r>) -> Option<Record<'r>> {
        if !record.event.is_long() {
            return Some(Record {
                rest: self.rest_of(&record),
                ..record
            });
        }
        let word = |at: u32| {
            let bytes = record.bytes.get(at as usize..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let copied = self.used((record.tid, word(LONG_TAKEN)?))?;
        if copied.address != 0 || copied.bytes.len() as u64 != word(LONG_SIZE)? {
            return None;
        }
        // The place of the header is left free in pieces.
        self.current = copied.bytes;
        let header = (PAYLOAD as usize).min(self.current.len());
        self.current[..header].copy_from_slice(record.bytes.get(..header)?);
        Some(Record {
            bytes: &self.current,
            ..record
        })
    }

    fn used(&mut self, key: (u32, u64)) -> Option<Copied> {
        let copied = self.copies.remove(&key)?;
        self.order.retain(|waiting| *waiting != key);
        Some(copied)
    }

    /// The part of a record's stack that pieces have; they are used up. Empty for records without pieces, which are not held up.
    pub fn rest_of(&mut self, record: &Record<'_>) -> &[u8] {
        self.current.clear();
        if self.copies.is_empty() {
            return &self.current;
        }
        let Some(copy) = record.stack_copy() else {
            return &self.current;
        };
        let key = (record.tid, copy.taken);
        if let Some(copied) = self.used(key)
            && copy.sp.checked_add(copy.stack.len() as u64) == Some(copied.address)
        {
            self.current = copied.bytes;
        }
        &self.current
    }
}

impl Copied {
    fn end(&self) -> Option<u64> {
        self.address.checked_add(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::decode::EventTable;

    const SP: u64 = 0x7ffe_0000;
    const NOTHING: [u8; 0] = [];

    fn event() -> EventClass {
        EventClass {
            id: EventId(1),
            name: "a:b".to_owned(),
            layout: Layout::new([("ustack".to_owned(), FieldType::StackCopy { max: 64, shown: None })]),
            kind: "tracepoint".to_owned(),
            action: None,
            print: None,
        }
    }

    /// A record of this number, with these fixed bytes behind the thread's, and this tail.
    fn bytes(id: EventId, tid: u32, fixed: &[u8], tail: &[u8]) -> Vec<u8> {
        let mut bytes = u64::from(id.0).to_le_bytes().to_vec();
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(tid.to_le_bytes());
        bytes.extend(fixed);
        bytes.extend(tail);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn piece(tid: u32, address: u64, taken: u64, stack: &[u8]) -> Vec<u8> {
        let mut fixed = address.to_le_bytes().to_vec();
        fixed.extend(taken.to_le_bytes());
        fixed.extend((stack.len() as u16).to_le_bytes());
        bytes(PIECE, tid, &fixed, stack)
    }

    /// A record that holds the first 16 bytes of a stack itself.
    fn head(tid: u32, taken: u64) -> Vec<u8> {
        let words = [0x40_1000, SP, 0, taken, 1, 2];
        let tail: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        bytes(EventId(1), tid, &[6, 0, 0, 0, 0, 0, 0, 0], &tail)
    }

    /// The part of these that the record of thread 8, taken at 5, gets.
    fn rest(pieces: &[Vec<u8>]) -> Vec<u8> {
        let table = EventTable::new([event()]);
        let mut waiting = StackPieces::default();
        for bytes in pieces {
            let record = table.record(bytes, 0, 0).unwrap();
            assert!(record.is_stack_piece());
            waiting.take(&record);
        }
        let bytes = head(8, 5);
        let record = table.record(&bytes, 0, 0).unwrap();
        assert!(!record.is_stack_piece());
        let rest = waiting.rest_of(&record).to_vec();
        assert!(waiting.rest_of(&record).is_empty(), "they are used up");
        rest
    }

    #[test]
    fn pieces_are_joined_in_front_of_their_record() {
        let from = SP + 16;
        assert_eq!(rest(&[]), NOTHING);
        assert_eq!(
            rest(&[piece(8, from, 5, &[1; 24]), piece(8, from + 24, 5, &[2; 8])]),
            [[1; 24].as_slice(), &[2; 8]].concat()
        );
        let of_others = [piece(9, from, 5, &[3; 8]), piece(8, from, 4, &[3; 8])];
        assert_eq!(
            rest(&of_others),
            NOTHING,
            "of another thread, and of a record that was lost"
        );
        let nested = [
            piece(8, from, 5, &[1; 8]),
            piece(8, from, 6, &[3; 8]),
            piece(8, from + 8, 5, &[2; 8]),
        ];
        assert_eq!(rest(&nested), [[1; 8], [2; 8]].concat());
        assert_eq!(
            rest(&[piece(8, from, 5, &[1; 8]), piece(8, from + 16, 5, &[2; 8])]),
            [1; 8],
            "up to the gap"
        );
        assert_eq!(
            rest(&[piece(8, from + 8, 5, &[2; 8])]),
            NOTHING,
            "the first one is missing"
        );
    }

    #[test]
    fn waiting_stack_pieces_are_bounded() {
        let from = SP + 16;
        let mut many: Vec<_> = (100..100 + WAITING as u64)
            .map(|taken| piece(8, from, taken, &[3; 8]))
            .collect();
        many.push(piece(8, from, 5, &[1; 8]));
        assert_eq!(rest(&many), [1; 8]);
        let first = piece(8, from, 5, &[1; 8]);
        many.insert(0, first);
        many.pop();
        many.push(piece(8, from, 99, &[3; 8]));
        assert_eq!(rest(&many), NOTHING, "the oldest gave way");
        let endless = (0..200).map(|at| piece(8, from + at * 960, 5, &[1; PIECE_BYTES as usize]));
        assert!(rest(&endless.collect::<Vec<_>>()).len() <= MAX as usize);
    }

    /// An event that prints more than a page has room for.
    fn long_event() -> EventClass {
        let action = Action {
            verb: "print".to_owned(),
            text: String::new(),
        };
        EventClass {
            layout: Layout::new([("value0".to_owned(), FieldType::CharArray { size: 5000 })]),
            action: Some(action),
            ..event()
        }
    }

    /// The record of thread 8 behind pieces of so many bytes in all, taken at 5.
    fn long(pieces: &[Vec<u8>], size: u64) -> Option<Vec<u8>> {
        let table = EventTable::new([long_event()]);
        let mut waiting = StackPieces::default();
        for bytes in pieces {
            waiting.take(&table.record(bytes, 0, 0).unwrap());
        }
        let fixed = [5, size].map(u64::to_le_bytes).concat();
        let bytes = bytes(EventId(1), 8, &fixed, &[]);
        let record = table.record(&bytes, 0, 0).unwrap();
        waiting.join(record).map(|record| record.bytes.to_vec())
    }

    #[test]
    fn long_records_are_whole_or_lost() {
        let (first, last) = (piece(8, 0, 5, &[1; 3968]), piece(8, 3968, 5, &[2; 1048]));
        let whole = long(&[first.clone(), last.clone()], 5016).unwrap();
        assert_eq!(whole[..16], bytes(EventId(1), 8, &[], &[]), "its own header");
        assert_eq!(whole[16..], [vec![1; 3952], vec![2; 1048]].concat());
        assert_eq!(long(std::slice::from_ref(&first), 5016), None);
        assert_eq!(long(std::slice::from_ref(&last), 5016), None);
        assert_eq!(long(&[last, first], 5016), None);
        assert_eq!(long(&[], 5016), None);
        assert_eq!(
            long(&[piece(8, 0, 5, &[1; 8])], 8),
            Some(bytes(EventId(1), 8, &[], &[])[..8].to_vec())
        );
    }

    #[test]
    fn a_piece_that_is_cut_is_damage() {
        let table = EventTable::default();
        let whole = piece(8, 1, 2, &[1; 24]);
        for cut in 0..whole.len() {
            assert!(table.record(&whole[..cut], 0, 0).is_err(), "{cut}");
        }
        assert!(table.record(&whole, 0, 0).is_ok());
    }
}
