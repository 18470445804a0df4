//! Streams as files of blocks: written through a page-wise writer, read as the pages that they were.

use super::block::{BLOCK_HEADER, BlockHeader, Broken, PACKETS, Packer, Unpacker};
use super::packet::{Packet, State};
use super::read::Source;
use super::write::StreamFile;
use crate::packet::PAGE;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};

/// What names of packed streams end with.
pub const SUFFIX: &str = ".packed";

/// Bytes of the pages of a full block.
const FULL: usize = PACKETS * PAGE as usize;

/// A stream's file that is being written.
#[derive(Debug)]
pub enum StreamOut {
    /// Pages as they are.
    Plain(File),
    /// Pages in blocks.
    Packed(Box<PackedOut>),
}

/// A packed stream that is being written. Pages wait until there are enough for a block.
#[derive(Debug)]
pub struct PackedOut {
    file: File,
    packer: Packer,
    waiting: Vec<u8>,
    /// Bytes of pages in blocks on file, and of these blocks.
    pages: u64,
    blocks: u64,
}

impl StreamOut {
    /// A file that pages can be written to as they are.
    pub fn plain(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Plain(file) => Some(file.as_fd()),
            Self::Packed(_) => None,
        }
    }
}

impl Write for StreamOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Packed(packed) => packed.take(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Packed(packed) => packed.block(),
        }
    }
}

impl StreamFile for StreamOut {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => {
                file.set_len(bytes)?;
                file.seek(SeekFrom::Start(bytes)).map(|_| ())
            }
            Self::Packed(packed) => {
                let waiting = bytes.saturating_sub(packed.pages);
                packed
                    .waiting
                    .truncate(usize::try_from(waiting).unwrap_or(usize::MAX));
                Ok(())
            }
        }
    }

    fn stored(&self, bytes: u64) -> u64 {
        match self {
            Self::Plain(_) => bytes,
            Self::Packed(packed) => packed.blocks,
        }
    }

    fn waiting(&self) -> &[u8] {
        match self {
            Self::Plain(_) => &[],
            Self::Packed(packed) => &packed.waiting,
        }
    }
}

impl PackedOut {
    /// Writes to an empty file.
    pub fn new(file: File, packer: Packer) -> Self {
        Self {
            file,
            packer,
            waiting: Vec::new(),
            pages: 0,
            blocks: 0,
        }
    }

    /// Takes pages as far as there is room. Where a block cannot be written none of these is taken, and those that wait do so on.
    fn take(&mut self, pages: &[u8]) -> io::Result<usize> {
        if self.waiting.len() == FULL {
            self.block()?;
        }
        let taken = pages.len().min(FULL - self.waiting.len());
        self.waiting.extend_from_slice(&pages[..taken]);
        Ok(taken)
    }

    /// Writes what waits as a block, whole or not at all.
    fn block(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let block = self.packer.pack(&self.waiting)?;
        if let Err(error) = self.file.write_all(&block) {
            // Should this fail as well, readers will find the cut block and say so.
            _ = self.file.set_len(self.blocks);
            _ = self.file.seek(SeekFrom::Start(self.blocks));
            return Err(error);
        }
        self.pages += self.waiting.len() as u64;
        self.blocks += block.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

/// A stream's file that is read.
#[derive(Debug)]
pub enum StreamIn {
    /// Pages as they are.
    Plain(File),
    /// Pages in blocks.
    Packed(Box<Unpacked<File>>),
    /// Pages that are made of something else.
    Other(Box<dyn Made>),
}

/// A source of pages that are made of something else.
pub trait Made: Source + std::fmt::Debug + Send {}

impl<M: Source + std::fmt::Debug + Send> Made for M {}

impl StreamIn {
    /// A file of blocks.
    pub fn packed(file: File) -> Self {
        Self::Packed(Box::new(Unpacked::new(file)))
    }
}

impl Source for StreamIn {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => Read::read(file, bytes),
            Self::Packed(packed) => packed.read(bytes),
            Self::Other(made) => made.read(bytes),
        }
    }

    fn within(&mut self, times: RangeInclusive<u64>) {
        match self {
            Self::Plain(_) => {}
            Self::Packed(packed) => packed.within(times),
            Self::Other(made) => made.within(times),
        }
    }

    fn skip_to(&mut self, time_ns: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => skip_pages(file, time_ns),
            // Blocks out of the times are stepped over.
            Self::Packed(_) => Ok(()),
            Self::Other(made) => made.skip_to(time_ns),
        }
    }

    fn damage(&mut self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Packed(packed) => packed.damage(),
            Self::Other(made) => made.damage(),
        }
    }
}

/// Goes to the first page of a plain stream that does not end before a time: pages lie in the order of their times. At one that cannot be read the search stays before it.
fn skip_pages(input: &mut (impl Read + Seek), time_ns: u64) -> io::Result<()> {
    let pages = input.seek(SeekFrom::End(0))? / u64::from(PAGE);
    let (mut first, mut end) = (0, pages);
    let mut page = [0; PAGE as usize];
    while first < end {
        let middle = first + (end - first) / 2;
        input.seek(SeekFrom::Start(middle * u64::from(PAGE)))?;
        input.read_exact(&mut page)?;
        match Packet::parse(&page) {
            Ok(packet) if packet.state == State::Whole && packet.end_ns < time_ns => first = middle + 1,
            _ => end = middle,
        }
    }
    input.seek(SeekFrom::Start(first * u64::from(PAGE))).map(|_| ())
}

/// The pages of a packed stream, one block in memory. Of blocks without records in the wanted times only the packets' headers are unpacked.
#[derive(Debug)]
pub struct Unpacked<R> {
    input: R,
    unpacker: Unpacker,
    /// The block at hand, and how far its pages were read.
    pages: Vec<u8>,
    at: usize,
    /// Bytes of it on file.
    headers: Vec<u8>,
    body: Vec<u8>,
    within: RangeInclusive<u64>,
    blocks: u64,
    ended: bool,
    damage: Option<String>,
}

impl<R: Read + Seek> Unpacked<R> {
    /// Reads blocks from where the input stands.
    pub fn new(input: R) -> Self {
        Self {
            input,
            unpacker: Unpacker::default(),
            pages: Vec::new(),
            at: 0,
            headers: Vec::new(),
            body: Vec::new(),
            within: 0..=u64::MAX,
            blocks: 0,
            ended: false,
            damage: None,
        }
    }

    /// Makes the next block that holds together the one at hand; false at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        while !self.ended {
            let mut header = [0; BLOCK_HEADER];
            let there = fill(&mut self.input, &mut header)?;
            if there == 0 {
                self.ended = true;
                break;
            }
            self.blocks += 1;
            if there < header.len() {
                self.cut(there);
                break;
            }
            let block = match BlockHeader::parse(&header) {
                Ok(block) => block,
                Err(why) => {
                    self.broken(&format!("{why}; what is behind it is not read"));
                    self.ended = true;
                    break;
                }
            };
            let wanted = block.end_ns >= *self.within.start() && block.begin_ns <= *self.within.end();
            self.headers.resize(block.headers, 0);
            let mut there = fill(&mut self.input, &mut self.headers)?;
            self.body.resize(if wanted { block.body } else { 0 }, 0);
            there += fill(&mut self.input, &mut self.body)?;
            if there < self.headers.len() + self.body.len() {
                self.cut(BLOCK_HEADER + there);
                break;
            }
            if !wanted {
                self.input.seek_relative(block.body as i64)?;
            }
            let body = wanted.then_some(self.body.as_slice());
            let unpacked = self.unpacker.unpack(&block, &self.headers, body, &mut self.pages);
            self.at = 0;
            match unpacked {
                Ok(()) => return Ok(true),
                Err(why) => self.lost(&block, why),
            }
        }
        self.pages.clear();
        self.at = 0;
        Ok(false)
    }

    fn cut(&mut self, there: usize) {
        self.broken(&format!("only {there} bytes of it are there, the file was cut"));
        self.ended = true;
    }

    fn lost(&mut self, block: &BlockHeader, why: Broken) {
        self.broken(&format!("{why}; its {} packets are missing", block.packets));
    }

    /// Keeps the first of several.
    fn broken(&mut self, why: &str) {
        let block = self.blocks - 1;
        self.damage.get_or_insert_with(|| format!("block {block}: {why}"));
    }
}

impl<R: Read + Seek> Source for Unpacked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.at == self.pages.len() && !self.next_block()? {
            return Ok(0);
        }
        let rest = &self.pages[self.at..];
        let read = rest.len().min(bytes.len());
        bytes[..read].copy_from_slice(&rest[..read]);
        self.at += read;
        Ok(read)
    }

    fn within(&mut self, times: RangeInclusive<u64>) {
        self.within = times;
    }

    fn damage(&mut self) -> Option<String> {
        self.damage.take()
    }
}

/// Packets in a packed stream, a cut block not counted: by the headers of its blocks. The input stands at its begin again.
///
/// # Errors
/// When it cannot be read.
pub fn count_packets(input: &mut (impl Read + Seek)) -> io::Result<u64> {
    let length = input.seek(SeekFrom::End(0))?;
    let (mut at, mut packets) = (0, 0);
    let mut header = [0; BLOCK_HEADER];
    while at < length {
        input.seek(SeekFrom::Start(at))?;
        if fill(input, &mut header)? < header.len() {
            break;
        }
        let Ok(block) = BlockHeader::parse(&header) else {
            break;
        };
        at += (BLOCK_HEADER + block.headers + block.body) as u64;
        packets += if at <= length { block.packets as u64 } else { 0 };
    }
    input.seek(SeekFrom::Start(0))?;
    Ok(packets)
}

/// Reads until all of `bytes` is there or the input ends; gives how many were read.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match input.read(&mut bytes[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
