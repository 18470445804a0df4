//! Runs of packets as small blocks: records taken apart into columns, so that like stands beside like, then compressed with zstd.
//!
//! ```text
//! 0    magic u32, packets u32                              the highest bit of packets set where the heads name threads
//! 8    times of the first and the last record u64, u64     ns; all times there are where a packet does not tell
//! 24   bytes of the headers, compressed u32
//! 28   bytes of the heads, compressed u32; as they were u32
//! 36   bytes of the fields, compressed u32; as they were u32
//! 44   check u32                                           of the bytes before
//! 48   headers     a zstd frame: for each packet 0 or 1 (kept as it is), then the words of their headers as columns of differences
//!      heads       a zstd frame:
//!                    shapes    count u16; event number u16 and words u16 of each, the highest bit set where its fields come here
//!                    events    count u32; the shape of each (two planes of bytes)
//!                              time since the event before it in the packet (six planes)
//!                              pid and tid
//!                    fields of the shapes of which they tell how long a record is, or name threads
//!                    packets that are kept as they are, without their headers
//!      fields      a zstd frame, or nothing:
//!                    by shape: of short records word by word, of long ones (texts, stacks) record by record
//! ```
//!
//! Each frame has zstd's checksum. A packet comes back as it was up to the end of its content; what stood behind it is zeros. Headers alone are enough to tell what
//! a packet holds, so a reader of other times does not unpack the rest; heads are enough to count, by thread with its name, too.

use super::packet::{Packet, State};
use crate::decode::EventTable;
use crate::event::EventClass;
use crate::packet::{CAPACITY, HEADER, PAGE, offset};
use crate::process::names_threads;
use std::collections::{HashMap, HashSet};
use std::io;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound};

/// Packets of a full block.
pub const PACKETS: usize = 64;

/// Bytes of a block's own header.
pub const BLOCK_HEADER: usize = 48;

/// The first word of a block.
pub const MAGIC: u32 = 0x6b32_6c62;

/// That of blocks of the first form, whose heads and fields were one frame.
const FIRST_MAGIC: u32 = 0x6b31_6c62;

/// Levels of compression: zstd's.
pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=19;

/// The level that is right for most: above it, time grows faster than files shrink.
pub const LEVEL: u8 = 3;

const BYTES: usize = PAGE as usize;
const FRONT: usize = HEADER as usize;
/// Words of a packet's header.
const HEADER_WORDS: usize = FRONT / 8;
/// Words of a packet's content at most.
const CONTENT_WORDS: usize = CAPACITY as usize / 8;
/// Records up to so many words are kept by columns. Longer ones hold texts and stacks, which are alike as wholes.
const SHORT: usize = 8;
/// The bit of a shape's words that says where its fields are.
const IN_HEADS: u16 = 1 << 15;
/// The bit of a block's packets that says that its heads have the fields of all records that name threads.
const NAMES: u32 = 1 << 31;
/// Bits of a time in a record's header.
const TIME: u64 = (1 << 48) - 1;
/// The most bytes of heads and fields: no column is longer than what it was in its packets, but for shapes and counts.
const MOST_BODY: usize = PACKETS * BYTES * 2 + (1 << 16);

/// Header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Packets in it.
    pub packets: usize,
    /// Time of the first record, ns.
    pub begin_ns: u64,
    /// Time of the last record, ns.
    pub end_ns: u64,
    /// Bytes of its headers on file.
    pub headers: usize,
    /// Bytes of its heads on file.
    pub heads: usize,
    /// Bytes of its fields on file.
    pub fields: usize,
    /// Bytes of heads and fields.
    plain: [usize; 2],
    /// Whether its heads have the fields of all records that name threads.
    names: bool,
}

/// Depth to which a block is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The headers of its packets.
    Headers,
    /// And of each record the time, the event and the thread, and all of those that name threads.
    Heads,
    /// All.
    All,
}

/// Why bytes are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum Broken {
    #[error("no block of compressed packets begins there")]
    Header,
    #[error(
        "it is of the first form of compressed recordings, which this Kestrel does not read: `kestrel export --to ctf` of the one that wrote it unpacks it"
    )]
    FirstForm,
    #[error("its headers do not unpack")]
    Headers,
    #[error("its records do not unpack")]
    Body,
    #[error("its unpacked contents are inconsistent")]
    Contents,
}

impl BlockHeader {
    /// Reads a block's header.
    ///
    /// # Errors
    /// When these bytes are none, or were damaged.
    pub fn parse(bytes: &[u8; BLOCK_HEADER]) -> Result<Self, Broken> {
        let mut words = Taken(bytes);
        let mut word = || words.u32().unwrap_or_default();
        let (magic, packets) = (word(), word());
        let (names, packets) = (packets & NAMES != 0, (packets & !NAMES) as usize);
        if magic == FIRST_MAGIC {
            return Err(Broken::FirstForm);
        }
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let (begin_ns, end_ns) = (long(), long());
        let mut bytes_of = || word() as usize;
        let (headers, heads, plain_heads, fields, plain_fields) =
            (bytes_of(), bytes_of(), bytes_of(), bytes_of(), bytes_of());
        let sum = word();
        let sound = magic == MAGIC
            && sum == check(&bytes[..BLOCK_HEADER - 4])
            && (1..=PACKETS).contains(&packets)
            && headers <= compress_bound(packets * (FRONT + 1))
            && plain_heads.saturating_add(plain_fields) <= MOST_BODY
            && (1..=compress_bound(plain_heads)).contains(&heads)
            && fields <= compress_bound(plain_fields);
        sound
            .then_some(Self {
                packets,
                begin_ns,
                end_ns,
                headers,
                heads,
                fields,
                plain: [plain_heads, plain_fields],
                names,
            })
            .ok_or(Broken::Header)
    }

    /// Bytes on file behind the header down to there.
    pub fn bytes(&self, depth: Depth) -> usize {
        match depth {
            Depth::Headers => self.headers,
            Depth::Heads if self.names => self.headers + self.heads,
            Depth::Heads | Depth::All => self.headers + self.heads + self.fields,
        }
    }
}

/// FNV-1a: tells a damaged header from a sound one.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Makes blocks.
pub struct Packer {
    events: EventTable,
    /// Numbers of the events whose fields are not among the heads.
    apart: HashSet<u16>,
    zstd: Compressor<'static>,
    parts: Parts,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// Packets taken apart.
#[derive(Debug, Default)]
struct Parts {
    shapes: HashMap<(u16, u16), u16>,
    /// For each shape: its event number and words, and where its records are in the packets.
    records: Vec<((u16, u16), Vec<u32>)>,
    codes: Vec<u16>,
    times: Vec<u64>,
    threads: Vec<u8>,
    kept: Vec<bool>,
    headers: Vec<u8>,
    heads: Vec<u8>,
    fields: Vec<u8>,
}

impl Packer {
    /// Packs packets with records of these events.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(events: EventTable, level: u8) -> io::Result<Self> {
        let level = i32::from(level).clamp(i32::from(*LEVELS.start()), i32::from(*LEVELS.end()));
        let mut zstd = Compressor::new(level)?;
        zstd.set_parameter(CParameter::ChecksumFlag(true))?;
        let is_apart = |event: &&EventClass| events.is_constant(event.id.0) && !names_threads(event);
        Ok(Self {
            apart: events.iter().filter(is_apart).map(|event| event.id.0).collect(),
            events,
            zstd,
            parts: Parts::default(),
        })
    }

    /// Packs whole pages, [`PACKETS`] at most, into a block. A page that is no sound packet is kept as it is.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn pack(&mut self, pages: &[u8]) -> io::Result<Vec<u8>> {
        let times = self.parts.take_apart(pages, &self.events);
        self.parts.join(pages, &self.apart);
        let packets = pages.len().div_ceil(BYTES);
        let parts = [&self.parts.headers, &self.parts.heads, &self.parts.fields];
        frame(&mut self.zstd, packets, times, parts.map(Vec::as_slice))
    }

    /// A block of these headers, heads and fields, whatever they hold: what readers must bear.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn block_of(&mut self, packets: usize, parts: [&[u8]; 3]) -> io::Result<Vec<u8>> {
        frame(&mut self.zstd, packets, (0, u64::MAX), parts)
    }
}

/// Compresses the parts of a block and puts its header before them.
fn frame(
    zstd: &mut Compressor<'_>,
    packets: usize,
    (begin_ns, end_ns): (u64, u64),
    [headers, heads, fields]: [&[u8]; 3],
) -> io::Result<Vec<u8>> {
    let plain = [heads.len(), fields.len()];
    let (headers, heads) = (zstd.compress(headers)?, zstd.compress(heads)?);
    let fields = match fields {
        [] => Vec::new(),
        fields => zstd.compress(fields)?,
    };
    let length = headers.len() + heads.len() + fields.len();
    let mut block = Vec::with_capacity(BLOCK_HEADER + length);
    block.extend(MAGIC.to_le_bytes());
    block.extend((packets as u32 | NAMES).to_le_bytes());
    block.extend(begin_ns.to_le_bytes());
    block.extend(end_ns.to_le_bytes());
    for length in [headers.len(), heads.len(), plain[0], fields.len(), plain[1]] {
        block.extend((length as u32).to_le_bytes());
    }
    block.extend(check(&block).to_le_bytes());
    for part in [headers, heads, fields] {
        block.extend(part);
    }
    Ok(block)
}

impl Parts {
    /// Finds the records; gives the times of the first and the last.
    fn take_apart(&mut self, pages: &[u8], events: &EventTable) -> (u64, u64) {
        self.shapes.clear();
        self.records.clear();
        self.codes.clear();
        self.times.clear();
        self.threads.clear();
        self.kept.clear();
        let (mut first, mut last) = (u64::MAX, 0);
        for (number, page) in pages.chunks(BYTES).enumerate() {
            let packet = Packet::parse(page)
                .ok()
                .filter(|packet| packet.state == State::Whole);
            (first, last) = match &packet {
                Some(packet) => (first.min(packet.begin_ns), last.max(packet.end_ns)),
                None => (0, u64::MAX),
            };
            let taken = packet.is_some_and(|packet| self.packet(&packet, number * BYTES + FRONT, events));
            self.kept.push(!taken);
        }
        (first, last)
    }

    /// Takes the records of a packet whose content is at that offset; false, and nothing is taken, where it cannot be had again from its records.
    fn packet(&mut self, packet: &Packet<'_>, start: usize, events: &EventTable) -> bool {
        let content = packet.content();
        let before = self.codes.len();
        let mut previous = packet.begin_ns;
        let mut at = 0;
        while at < content.len() {
            let rest = &content[at..];
            let extent = events.extent(rest, previous).ok().filter(|extent| {
                extent.size >= 16 && extent.size.is_multiple_of(8) && extent.size <= rest.len()
            });
            let (Some(extent), Some(header)) = (extent, rest.first_chunk()) else {
                self.forget(before);
                return false;
            };
            let header = u64::from_le_bytes(*header);
            let shape = (header as u16, (extent.size / 8) as u16);
            let next = self.records.len() as u16;
            let code = *self.shapes.entry(shape).or_insert(next);
            if code == next {
                self.records.push((shape, Vec::new()));
            }
            self.records[usize::from(code)].1.push((start + at) as u32);
            self.codes.push(code);
            self.times.push((header >> 16).wrapping_sub(previous) & TIME);
            self.threads.extend_from_slice(&rest[8..16]);
            previous = extent.time_ns;
            at += extent.size;
        }
        true
    }

    /// Forgets all records but the first so many.
    fn forget(&mut self, events: usize) {
        for code in self.codes.drain(events..).rev() {
            self.records[usize::from(code)].1.pop();
        }
        self.times.truncate(events);
        self.threads.truncate(events * 8);
    }

    /// Puts like beside like.
    fn join(&mut self, pages: &[u8], apart: &HashSet<u16>) {
        self.headers.clear();
        self.headers.extend(self.kept.iter().map(|kept| u8::from(*kept)));
        for word in 0..HEADER_WORDS {
            let mut before = 0;
            for page in pages.chunks(BYTES) {
                let value = word_at(page, word * 8);
                self.headers.extend(value.wrapping_sub(before).to_le_bytes());
                before = value;
            }
        }
        let (heads, fields) = (&mut self.heads, &mut self.fields);
        heads.clear();
        fields.clear();
        heads.extend((self.records.len() as u16).to_le_bytes());
        for ((number, words), _) in &self.records {
            let place = if apart.contains(number) { 0 } else { IN_HEADS };
            heads.extend(number.to_le_bytes());
            heads.extend((words | place).to_le_bytes());
        }
        heads.extend((self.codes.len() as u32).to_le_bytes());
        for plane in 0..2 {
            heads.extend(self.codes.iter().map(|code| (code >> (8 * plane)) as u8));
        }
        for plane in 0..6 {
            heads.extend(self.times.iter().map(|time| (time >> (8 * plane)) as u8));
        }
        heads.extend_from_slice(&self.threads);
        for ((number, words), records) in &self.records {
            let into = if apart.contains(number) {
                &mut *fields
            } else {
                &mut *heads
            };
            join_fields(pages, usize::from(*words), records, into);
        }
        for (page, kept) in pages.chunks(BYTES).zip(&self.kept) {
            if *kept {
                heads.extend_from_slice(&page[FRONT..]);
            }
        }
    }
}

/// Puts the fields of the records of a shape one behind the other.
fn join_fields(pages: &[u8], words: usize, records: &[u32], into: &mut Vec<u8>) {
    if words > SHORT {
        for &at in records {
            into.extend_from_slice(&pages[at as usize + 16..at as usize + words * 8]);
        }
        return;
    }
    for word in 2..words {
        for &at in records {
            let at = at as usize + word * 8;
            into.extend_from_slice(&pages[at..at + 8]);
        }
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// Takes blocks apart again.
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

/// A word as it lies in a record.
type Word = [u8; 8];

/// Puts the records back where they were, without those of their fields that are not there, and zeros behind them.
fn restore_records(
    heads: &[u8],
    fields: Option<&[u8]>,
    kept: &[u8],
    since: &mut Vec<u64>,
    pages: &mut [u8],
) -> Option<()> {
    let (mut rest, mut fields) = (Taken(heads), fields.map(Taken));
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
    fn find(&mut self, rest: &mut Taken<'a>) -> Option<()> {
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

/// Bytes that are taken from the front.
struct Taken<'a>(&'a [u8]);

impl<'a> Taken<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn words(&mut self, count: usize) -> Option<&'a [Word]> {
        Some(self.bytes(count.checked_mul(8)?)?.as_chunks().0)
    }

    fn u16(&mut self) -> Option<u16> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*word))
    }

    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }
}
