//! Packing: records of packets taken apart into columns, and the block that these make.

use super::header::{BLOCK_HEADER, BlockHeader};
use super::layout::{BYTES, FRONT, HEADER_WORDS, IN_HEADS, SHORT, TIME, word_at};
use crate::ctf::packet::{Packet, State};
use crate::decode::EventTable;
use crate::event::EventClass;
use crate::process::names_threads;
use std::collections::{HashMap, HashSet};
use std::io;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// Levels of compression: zstd's.
pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=19;

/// The level that is right for most: above it, time grows faster than files shrink.
pub const LEVEL: u8 = 3;

/// Makes blocks of packets.
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

    /// Packs whole pages, [`PACKETS`](super::layout::PACKETS) at most, into a block. A page that is no sound packet is kept as it is.
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
        // Columns of differences: most words of a header grow by nearly the same from page to page.
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
        // Planes of bytes: the high ones are nearly all alike, which compresses to nothing. Times have 48 bits.
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
    let header = BlockHeader {
        packets,
        begin_ns,
        end_ns,
        packet_headers: headers.len(),
        index: heads.len(),
        fields: fields.len(),
        unpacked: plain,
        index_names_threads: true,
    };
    let mut block = Vec::with_capacity(BLOCK_HEADER + header.packet_headers + header.index + header.fields);
    block.extend(header.to_bytes());
    for part in [headers, heads, fields] {
        block.extend(part);
    }
    Ok(block)
}
