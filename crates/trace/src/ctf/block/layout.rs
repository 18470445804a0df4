//! The bytes that packing and unpacking agree on: sizes, marks, and words of little-endian bytes.

use crate::packet::{CAPACITY, HEADER, PAGE};

/// Packets of a full block.
pub const PACKETS: usize = 64;

/// Bytes of a page, which holds a packet.
pub(super) const BYTES: usize = PAGE as usize;
/// Bytes of a packet's header.
pub(super) const FRONT: usize = HEADER as usize;
/// Words of a packet's header.
pub(super) const HEADER_WORDS: usize = FRONT / 8;
/// Words of a packet's content at most.
pub(super) const CONTENT_WORDS: usize = CAPACITY as usize / 8;
/// Records up to so many words are kept by columns. Longer ones hold strings and stacks, which are alike as wholes.
pub(super) const SHORT: usize = 8;
/// The bit of a shape's words that says where its fields are.
pub(super) const IN_HEADS: u16 = 1 << 15;
/// Bits of a time in a record's header.
pub(super) const TIME: u64 = (1 << 48) - 1;

/// A word as it lies in a record.
pub(super) type Word = [u8; 8];

/// The word at an offset; 0 behind the end.
pub(super) fn word_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// A reader that takes bytes from the front.
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn words(&mut self, count: usize) -> Option<&'a [Word]> {
        Some(self.bytes(count.checked_mul(8)?)?.as_chunks().0)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*word))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }
}
