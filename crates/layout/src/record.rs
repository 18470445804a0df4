//! The byte layout of a record: `header u64 | pid u32, tid u32 | fixed part | tail`, 8-aligned, its length a multiple of 8.
//!
//! Fixed fields have constant offsets and natural alignment, larger alignments first, so that there is no padding between them. Fields of variable length keep
//! the number of their elements (`u16`) in the fixed part; the elements follow in the tail.

use crate::packet::CAPACITY;

/// Bytes before the payload: event header (8) and common context, pid and tid (8).
pub const PAYLOAD: u32 = 16;

/// Bits of a record's time in its header.
pub const TIME_BITS: u32 = 48;

/// Size and alignment of a field in the fixed part, in bytes; of a variable field, those of its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size in bytes.
    pub size: u32,
    /// A power of two, 8 at most.
    pub align: u32,
}

/// The shape of a variable field's count.
pub const COUNT: Shape = Shape { size: 2, align: 2 };

/// A record's header: the event's number, and the time's low 48 bits.
pub const fn header(event: u16, time_ns: u64) -> u64 {
    event as u64 | time_ns << 16
}

/// Places fields given in reading order: writes the offset of each from the record's start, and gives the end of the last. There are as many offsets as shapes.
pub const fn place(shapes: &[Shape], offsets: &mut [u32]) -> u32 {
    let (mut end, mut above) = (PAYLOAD, u32::MAX);
    loop {
        let (mut align, mut some, mut at) = (0, false, 0);
        while at < shapes.len() {
            let own = shapes[at].align;
            if own < above && (!some || own > align) {
                (align, some) = (own, true);
            }
            at += 1;
        }
        if !some {
            return end;
        }
        let mut at = 0;
        while at < shapes.len() {
            if shapes[at].align == align {
                let unit = if align == 0 { 1 } else { align };
                let begin = match end.checked_next_multiple_of(unit) {
                    Some(begin) => begin,
                    None => u32::MAX,
                };
                offsets[at] = begin;
                end = begin.saturating_add(shapes[at].size);
            }
            at += 1;
        }
        above = align;
    }
}

/// Most bytes of each of so many variable fields behind a fixed part that ends there, so that any record has room in a page.
pub const fn most(fixed_end: u32, variable: u32) -> u32 {
    let room = CAPACITY.saturating_sub(fixed_end.next_multiple_of(8));
    match room.checked_div(variable) {
        Some(each) => each,
        None => room,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_alignments_come_first_and_equal_ones_as_they_are_given() {
        let shapes = [1, 8, 2, 8, 4, 1].map(|size| Shape { size, align: size });
        let mut offsets = [0; 6];
        let end = place(&shapes, &mut offsets);
        assert_eq!(offsets, [38, 16, 36, 24, 32, 39]);
        assert_eq!(end, 40);
        assert_eq!(place(&[], &mut []), PAYLOAD);
    }

    #[test]
    fn variable_fields_share_a_page() {
        assert_eq!(most(20, 1), CAPACITY - 24);
        assert_eq!(most(20, 2), (CAPACITY - 24) / 2);
        assert_eq!(most(CAPACITY + 9, 3), 0);
    }
}
