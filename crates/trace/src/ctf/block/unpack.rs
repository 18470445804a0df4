//! Unpacking: the packets of a block, as far as bytes of it are given.

use super::header::{BlockHeader, Broken};
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
    /// Puts the packets of a block into `pages`, as far as bytes of it are given ([`BlockHeader::bytes`]): what is not told by them is zeros then.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn unpack(&mut self, block: &BlockHeader, bytes: &[u8], pages: &mut Vec<u8>) -> Result<(), Broken> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new().map_err(|_| Broken::Headers)?),
        };
        let (headers, rest) = bytes.split_at_checked(block.headers).ok_or(Broken::Headers)?;
        let length = block.packets * (FRONT + 1);
        inflate(zstd, headers, length, &mut self.headers).ok_or(Broken::Headers)?;
        // All of it is written below: what is unused as zeros.
        pages.resize(block.packets * BYTES, 0);
        restore_headers(&self.headers, block.packets, pages);
        if rest.is_empty() {
            for page in pages.chunks_mut(BYTES) {
                page[FRONT..].fill(0);
            }
            return Ok(());
        }
        let (heads, fields) = rest.split_at_checked(block.heads).ok_or(Broken::Body)?;
        inflate(zstd, heads, block.plain[0], &mut self.heads).ok_or(Broken::Body)?;
        self.fields.clear();
        let is_all = fields.len() == block.fields;
        if is_all && !fields.is_empty() {
            inflate(zstd, fields, block.plain[1], &mut self.fields).ok_or(Broken::Body)?;
        }
        let kept = &self.headers[..block.packets];
        let fields = is_all.then_some(self.fields.as_slice());
        restore_records(&self.heads, fields, kept, &mut self.since, pages).ok_or(Broken::Contents)
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
    /// Bytes of a record.
    size: usize,
    /// Whether the fields are among the heads, and whether they are there at all.
    in_heads: bool,
    is_there: bool,
    /// Records of the shape, and how many of them were taken.
    records: usize,
    taken: usize,
    /// The fields of short records, word by word; those of long ones, record by record.
    columns: [&'a [Word]; SHORT - 2],
    whole: &'a [u8],
}

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
        let size = usize::from(words & !IN_HEADS);
        if !(2..=CONTENT_WORDS).contains(&size) {
            return None;
        }
        shapes.push(Fields {
            number,
            size: size * 8,
            in_heads: words & IN_HEADS != 0,
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
    // Columns have the order of the records in their pages, so one walk over the pages takes each of them once.
    for (page, kept) in pages.chunks_mut(BYTES).zip(kept) {
        if *kept != 0 {
            page[FRONT..].copy_from_slice(rest.bytes(BYTES - FRONT)?);
            continue;
        }
        let bits = word_at(page, offset::CONTENT_SIZE as usize);
        let end = usize::try_from(bits / 8).ok().filter(|end| *end <= BYTES)?;
        let mut time = word_at(page, offset::TIMESTAMP_BEGIN as usize);
        let mut at = FRONT;
        while at < end {
            let (code, (since, thread)) = records.next()?;
            let shape = shapes.get_mut(code)?;
            let record = page.get_mut(at..at + shape.size)?;
            time = time.wrapping_add(*since);
            let header = u64::from(shape.number) | time << 16;
            record[..8].copy_from_slice(&header.to_le_bytes());
            record[8..16].copy_from_slice(thread);
            match shape.is_there {
                true => shape.take(&mut record[16..])?,
                false => record[16..].fill(0),
            }
            at += shape.size;
        }
        page[at..].fill(0);
    }
    // Bytes or records that no page took belong to another block, or to a damaged one.
    let is_empty = rest.0.is_empty() && fields.is_none_or(|fields| fields.0.is_empty());
    (records.next().is_none() && is_empty).then_some(())
}

/// Puts the planes of times together.
fn restore_times(planes: &[u8], events: usize, times: &mut Vec<u64>) {
    times.clear();
    times.resize(events, 0);
    for (number, plane) in planes.chunks_exact(events.max(1)).enumerate() {
        // The upper ones have no bit as a rule.
        if plane.iter().any(|byte| *byte != 0) {
            for (time, byte) in times.iter_mut().zip(plane) {
                *time |= u64::from(*byte) << (8 * number);
            }
        }
    }
}

impl<'a> Fields<'a> {
    /// Takes the fields of all records of the shape.
    fn find(&mut self, rest: &mut ByteReader<'a>) -> Option<()> {
        let words = self.size / 8 - 2;
        self.is_there = true;
        if words > self.columns.len() {
            self.whole = rest.bytes(self.records.checked_mul(words * 8)?)?;
        } else {
            for column in self.columns.iter_mut().take(words) {
                *column = rest.words(self.records)?;
            }
        }
        Some(())
    }

    /// Puts the fields of the next record into its place.
    #[inline]
    fn take(&mut self, record: &mut [u8]) -> Option<()> {
        if record.len() > self.columns.len() * 8 {
            let (fields, rest) = self.whole.split_at_checked(record.len())?;
            record.copy_from_slice(fields);
            self.whole = rest;
        } else {
            for (word, column) in record.as_chunks_mut().0.iter_mut().zip(&self.columns) {
                *word = *column.get(self.taken)?;
            }
            self.taken += 1;
        }
        Some(())
    }
}
