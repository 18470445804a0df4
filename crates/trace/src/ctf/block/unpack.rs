//! Unpacking: the packets of a block, as far as bytes of it are given.

use super::header::{BlockError, BlockHeader};
use super::layout::{BYTES, ByteReader, CONTENT_WORDS, FRONT, HEADER_WORDS, IN_HEADS, SHORT, Word, word_at};
use crate::packet::offset;
use zstd::bulk::Decompressor;

/// Gives the packets of blocks.
#[derive(Default)]
pub struct Unpacker {
    zstd: Option<Decompressor<'static>>,
    headers: Vec<u8>,
    heads: Vec<u8>,
    fields: Vec<u8>,
    /// Of each record, the time since the one before it.
    since: Vec<u64>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Unpacker {
    /// Puts the packets of a block into `pages`, as far as bytes of it are given ([`BlockHeader::bytes`]): the rest is zeros then.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn unpack(
        &mut self,
        block: &BlockHeader,
        bytes: &[u8],
        pages: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new().map_err(|_| BlockError::Headers)?),
        };
        let (headers, rest) = bytes
            .split_at_checked(block.packet_headers)
            .ok_or(BlockError::Headers)?;
        let length = block.packets * (FRONT + 1);
        inflate(zstd, headers, length, &mut self.headers).ok_or(BlockError::Headers)?;
        // All of it is written below: what is unused as zeros.
        pages.resize(block.packets * BYTES, 0);
        restore_headers(&self.headers, block.packets, pages);
        if rest.is_empty() {
            for page in pages.chunks_mut(BYTES) {
                page[FRONT..].fill(0);
            }
            return Ok(());
        }
        let (heads, fields) = rest.split_at_checked(block.index).ok_or(BlockError::Body)?;
        inflate(zstd, heads, block.unpacked[0], &mut self.heads).ok_or(BlockError::Body)?;
        self.fields.clear();
        let is_all = fields.len() == block.fields;
        if is_all && !fields.is_empty() {
            inflate(zstd, fields, block.unpacked[1], &mut self.fields).ok_or(BlockError::Body)?;
        }
        let kept = &self.headers[..block.packets];
        let fields = is_all.then_some(self.fields.as_slice());
        restore_records(&self.heads, fields, kept, &mut self.since, pages).ok_or(BlockError::Contents)
    }
}

/// Unpacks a frame that must hold exactly so many bytes.
fn inflate(zstd: &mut Decompressor<'_>, frame: &[u8], length: usize, into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    into.reserve(length);
    zstd.decompress_to_buffer(frame, into).ok()?;
    (into.len() == length).then_some(())
}

fn restore_headers(headers: &[u8], packets: usize, pages: &mut [u8]) {
    for word in 0..HEADER_WORDS {
        let mut value = 0u64;
        for (number, page) in pages.chunks_mut(BYTES).enumerate() {
            value = value.wrapping_add(word_at(headers, packets + (word * packets + number) * 8));
            page[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// A shape, and where the fields of its next record are.
#[derive(Default)]
struct Fields<'a> {
    number: u16,
    /// Words of a record.
    words: usize,
    /// Whether the fields are among the heads, and whether they are there at all.
    in_heads: bool,
    is_there: bool,
    /// Records of the shape, and how many of them were taken.
    records: usize,
    taken: usize,
    /// The fields of short records, word by word; those of long ones, record by record.
    columns: [&'a [Word]; SHORT - 2],
    whole: &'a [Word],
}

/// Words of a page.
const PAGE_WORDS: usize = BYTES / 8;
const ZERO: Word = [0; 8];

/// Puts the records back where they were, without those of their fields that are not there, and zeros behind them.
fn restore_records(
    heads: &[u8],
    fields: Option<&[u8]>,
    kept: &[u8],
    since: &mut Vec<u64>,
    pages: &mut [u8],
) -> Option<()> {
    let (mut rest, mut fields) = (ByteReader(heads), fields.map(ByteReader));
    let mut shapes = Vec::new();
    for _ in 0..rest.u16()? {
        let (number, words) = (rest.u16()?, rest.u16()?);
        let (words, in_heads) = (usize::from(words & !IN_HEADS), words & IN_HEADS != 0);
        if !(2..=CONTENT_WORDS).contains(&words) {
            return None;
        }
        shapes.push(Fields {
            number,
            words,
            in_heads,
            ..Fields::default()
        });
    }
    let events = rest.u32()? as usize;
    // A count from a damaged file must not decide how much is allocated: each event takes more than one byte of the heads.
    if events > heads.len() {
        return None;
    }
    let codes = [rest.bytes(events)?, rest.bytes(events)?];
    let codes = codes[0]
        .iter()
        .zip(codes[1])
        .map(|(low, high)| usize::from(u16::from_le_bytes([*low, *high])));
    restore_times(rest.bytes(events * 6)?, events, since);
    let threads = rest.words(events)?;
    for code in codes.clone() {
        shapes.get_mut(code)?.records += 1;
    }
    for shape in &mut shapes {
        let from = if shape.in_heads {
            Some(&mut rest)
        } else {
            fields.as_mut()
        };
        if let Some(from) = from {
            shape.find(from)?;
        }
    }
    let mut records = codes.zip(since.iter().zip(threads));
    let are_all_there = shapes.iter().all(|shape| shape.is_there);
    // Columns have the order of the records in their pages, so one walk over the pages takes each of them once.
    for (page, kept) in pages.as_chunks_mut().0.chunks_mut(PAGE_WORDS).zip(kept) {
        if *kept != 0 {
            page[HEADER_WORDS..].copy_from_slice(rest.words(PAGE_WORDS - HEADER_WORDS)?);
            continue;
        }
        let word = |at: u32| page.get(at as usize / 8).map(|word| u64::from_le_bytes(*word));
        let bits = word(offset::CONTENT_SIZE)?;
        let mut time = word(offset::TIMESTAMP_BEGIN)?;
        let end = usize::try_from(bits.div_ceil(64)).ok();
        let end = end.filter(|end| *end <= PAGE_WORDS)?;
        // Zeros for all that is not there are faster at once than record by record.
        if !are_all_there {
            page[HEADER_WORDS..].fill(ZERO);
        }
        let mut at = HEADER_WORDS;
        while at < end {
            let (code, (since, thread)) = records.next()?;
            let shape = shapes.get_mut(code)?;
            let record = page.get_mut(at..at + shape.words)?;
            let [first, second, fields @ ..] = record else {
                return None;
            };
            time = time.wrapping_add(*since);
            *first = (u64::from(shape.number) | time << 16).to_le_bytes();
            *second = *thread;
            if shape.is_there {
                shape.take(fields)?;
            }
            at += shape.words;
        }
        if are_all_there {
            page[at..].fill(ZERO);
        }
    }
    // Bytes or records that no page took belong to another block, or to a damaged one.
    let is_empty = rest.0.is_empty() && fields.is_none_or(|fields| fields.0.is_empty());
    (records.next().is_none() && is_empty).then_some(())
}

/// Puts the planes of times together.
fn restore_times(planes: &[u8], events: usize, times: &mut Vec<u64>) {
    times.clear();
    let mut planes = planes.chunks_exact(events.max(1));
    let lower = [(); 3].map(|()| planes.next().unwrap_or_default());
    let lower = lower[0].iter().zip(lower[1]).zip(lower[2]);
    times.extend(lower.map(|((low, middle), high)| u64::from(u32::from_le_bytes([*low, *middle, *high, 0]))));
    // The upper ones have no bit as a rule: they are for events that are more than 16 ms apart.
    for (number, plane) in (3..).zip(planes) {
        if plane.iter().fold(0, |bits, byte| bits | byte) != 0 {
            for (time, byte) in times.iter_mut().zip(plane) {
                *time |= u64::from(*byte) << (8 * number);
            }
        }
    }
}

impl<'a> Fields<'a> {
    /// Takes the fields of all records of the shape.
    fn find(&mut self, rest: &mut ByteReader<'a>) -> Option<()> {
        let words = self.words - 2;
        self.is_there = true;
        if words > self.columns.len() {
            self.whole = rest.words(self.records.checked_mul(words)?)?;
        } else {
            for column in self.columns.iter_mut().take(words) {
                *column = rest.words(self.records)?;
            }
        }
        Some(())
    }

    /// Puts the fields of the next record into their place.
    #[inline]
    fn take(&mut self, fields: &mut [Word]) -> Option<()> {
        if fields.len() > self.columns.len() {
            let (taken, rest) = self.whole.split_at_checked(fields.len())?;
            fields.copy_from_slice(taken);
            self.whole = rest;
        } else {
            for (word, column) in fields.iter_mut().zip(&self.columns) {
                *word = *column.get(self.taken)?;
            }
            self.taken += 1;
        }
        Some(())
    }
}
