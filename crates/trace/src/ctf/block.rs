//! Runs of packets as small blocks: records taken apart into columns, so that like stands beside like, then compressed with zstd.
//!
//! ```text
//! 0    magic u32, packets u32
//! 8    times of the first and the last record u64, u64     ns; all times there are where a packet does not tell
//! 24   bytes of the headers, compressed u32
//! 28   bytes of the body, compressed u32; as it was u32
//! 36   check u32                                           of the bytes before
//! 40   headers     a zstd frame: for each packet 0 or 1 (kept as it is), then the words of their headers as columns of differences
//!      body        a zstd frame:
//!                    shapes    count u16; event number u16 and words u16 of each
//!                    events    count u32; the shape of each (two planes of bytes)
//!                              time since the event before it in the packet (six planes)
//!                              pid and tid
//!                    fields    by shape: of short records word by word, of long ones (texts, stacks) record by record
//!                    packets that are kept as they are, without their headers
//! ```
//!
//! Each frame has zstd's checksum. A packet comes back as it was up to the end of its content; what stood behind it is zeros. Headers alone are enough to tell what
//! a packet holds, so a reader of other times does not unpack the body.

use super::packet::{Packet, State};
use crate::decode::EventTable;
use crate::packet::{CAPACITY, HEADER, PAGE, offset};
use std::collections::HashMap;
use std::io;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound};

/// Packets of a full block.
pub const PACKETS: usize = 64;

/// Bytes of a block's own header.
pub const BLOCK_HEADER: usize = 40;

/// The first word of a block.
pub const MAGIC: u32 = 0x6b31_6c62;

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
/// Bits of a time in a record's header.
const TIME: u64 = (1 << 48) - 1;
/// The most bytes of a body: no column is longer than what it was in its packets, but for shapes and counts.
const MOST_BODY: usize = PACKETS * BYTES * 2 + (1 << 16);

/// What a block says of itself.
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
    /// Bytes of its body on file.
    pub body: usize,
    /// Bytes of its body.
    plain: usize,
}

/// Why bytes are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum Broken {
    #[error("no block of compressed packets begins there")]
    Header,
    #[error("its headers do not unpack")]
    Headers,
    #[error("its records do not unpack")]
    Body,
    #[error("what it unpacks to does not hold together")]
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
        let (magic, packets) = (word(), word() as usize);
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let (begin_ns, end_ns) = (long(), long());
        let (headers, body, plain, sum) = (word() as usize, word() as usize, word() as usize, word());
        let sound = magic == MAGIC
            && sum == check(&bytes[..BLOCK_HEADER - 4])
            && (1..=PACKETS).contains(&packets)
            && headers <= compress_bound(packets * (FRONT + 1))
            && plain <= MOST_BODY
            && body <= compress_bound(plain);
        sound
            .then_some(Self {
                packets,
                begin_ns,
                end_ns,
                headers,
                body,
                plain,
            })
            .ok_or(Broken::Header)
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
    body: Vec<u8>,
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
        Ok(Self {
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
        self.parts.join(pages);
        let packets = pages.len().div_ceil(BYTES);
        frame(
            &mut self.zstd,
            packets,
            times,
            &self.parts.headers,
            &self.parts.body,
        )
    }

    /// A block of these parts, whatever they hold: what readers must bear.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn block_of(&mut self, packets: usize, headers: &[u8], body: &[u8]) -> io::Result<Vec<u8>> {
        frame(&mut self.zstd, packets, (0, u64::MAX), headers, body)
    }
}

/// Compresses the parts of a block and puts its header before them.
fn frame(
    zstd: &mut Compressor<'_>,
    packets: usize,
    (begin_ns, end_ns): (u64, u64),
    headers: &[u8],
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let plain = body.len();
    let (headers, body) = (zstd.compress(headers)?, zstd.compress(body)?);
    let mut block = Vec::with_capacity(BLOCK_HEADER + headers.len() + body.len());
    block.extend(MAGIC.to_le_bytes());
    block.extend((packets as u32).to_le_bytes());
    block.extend(begin_ns.to_le_bytes());
    block.extend(end_ns.to_le_bytes());
    for length in [headers.len(), body.len(), plain] {
        block.extend((length as u32).to_le_bytes());
    }
    block.extend(check(&block).to_le_bytes());
    block.extend(headers);
    block.extend(body);
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
    fn join(&mut self, pages: &[u8]) {
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
        let body = &mut self.body;
        body.clear();
        body.extend((self.records.len() as u16).to_le_bytes());
        for ((number, words), _) in &self.records {
            body.extend(number.to_le_bytes());
            body.extend(words.to_le_bytes());
        }
        body.extend((self.codes.len() as u32).to_le_bytes());
        for plane in 0..2 {
            body.extend(self.codes.iter().map(|code| (code >> (8 * plane)) as u8));
        }
        for plane in 0..6 {
            body.extend(self.times.iter().map(|time| (time >> (8 * plane)) as u8));
        }
        body.extend_from_slice(&self.threads);
        for ((_, words), records) in &self.records {
            let words = usize::from(*words);
            if words > SHORT {
                for &at in records {
                    body.extend_from_slice(&pages[at as usize + 16..at as usize + words * 8]);
                }
                continue;
            }
            for word in 2..words {
                for &at in records {
                    let at = at as usize + word * 8;
                    body.extend_from_slice(&pages[at..at + 8]);
                }
            }
        }
        for (page, kept) in pages.chunks(BYTES).zip(&self.kept) {
            if *kept {
                body.extend_from_slice(&page[FRONT..]);
            }
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
    body: Vec<u8>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Unpacker {
    /// Puts the packets of a block into `pages`, with their headers alone where no body is given: their content is zeros then.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn unpack(
        &mut self,
        block: &BlockHeader,
        headers: &[u8],
        body: Option<&[u8]>,
        pages: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new().map_err(|_| Broken::Headers)?),
        };
        let length = block.packets * (FRONT + 1);
        inflate(zstd, headers, length, &mut self.headers).ok_or(Broken::Headers)?;
        pages.clear();
        pages.resize(block.packets * BYTES, 0);
        restore_headers(&self.headers, block.packets, pages);
        let Some(body) = body else { return Ok(()) };
        inflate(zstd, body, block.plain, &mut self.body).ok_or(Broken::Body)?;
        let kept = &self.headers[..block.packets];
        restore_body(&self.body, kept, pages).ok_or(Broken::Contents)
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

/// Where the fields of a shape's next record are.
struct Fields<'a> {
    number: u16,
    words: usize,
    /// Records of the shape, and how many of them were taken.
    records: usize,
    taken: usize,
    bytes: &'a [u8],
}

/// Puts the records back where they were.
fn restore_body(body: &[u8], kept: &[u8], pages: &mut [u8]) -> Option<()> {
    let mut rest = Taken(body);
    let mut fields = Vec::new();
    for _ in 0..rest.u16()? {
        let (number, words) = (rest.u16()?, usize::from(rest.u16()?));
        if !(2..=CONTENT_WORDS).contains(&words) {
            return None;
        }
        fields.push(Fields {
            number,
            words,
            records: 0,
            taken: 0,
            bytes: &[],
        });
    }
    let events = rest.u32()? as usize;
    if events > body.len() {
        return None;
    }
    let codes = [rest.bytes(events)?, rest.bytes(events)?];
    let mut times = [&[] as &[u8]; 6];
    for plane in &mut times {
        *plane = rest.bytes(events)?;
    }
    let threads = rest.bytes(events * 8)?;
    let code = |event: usize| usize::from(u16::from_le_bytes([codes[0][event], codes[1][event]]));
    for event in 0..events {
        fields.get_mut(code(event))?.records += 1;
    }
    for shape in &mut fields {
        shape.bytes = rest.bytes(shape.records.checked_mul((shape.words - 2) * 8)?)?;
    }
    let mut event = 0;
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
            if event >= events {
                return None;
            }
            let shape = fields.get_mut(code(event))?;
            let record = page.get_mut(at..at + shape.words * 8)?;
            let since = (0..6).fold(0, |time, plane| {
                time | u64::from(times[plane][event]) << (8 * plane)
            });
            time = time.wrapping_add(since);
            let header = u64::from(shape.number) | time << 16;
            record[..8].copy_from_slice(&header.to_le_bytes());
            record[8..16].copy_from_slice(&threads[event * 8..event * 8 + 8]);
            shape.take(&mut record[16..]);
            at += shape.words * 8;
            event += 1;
        }
    }
    (event == events && rest.0.is_empty()).then_some(())
}

impl Fields<'_> {
    /// Puts the fields of the next record into its place.
    #[inline]
    fn take(&mut self, record: &mut [u8]) {
        let words = self.words - 2;
        if self.words > SHORT {
            let at = self.taken * words * 8;
            record.copy_from_slice(&self.bytes[at..at + words * 8]);
        } else {
            for word in 0..words {
                let at = (word * self.records + self.taken) * 8;
                record[word * 8..word * 8 + 8].copy_from_slice(&self.bytes[at..at + 8]);
            }
        }
        self.taken += 1;
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
