//! Streams as files of blocks: written through a page-wise writer, read as the pages that they were.

use super::ahead::{Ahead, Unpackers};
use super::block::{BLOCK_HEADER, BlockHeader, Depth, PACKETS, Packer};
use super::block_file::{BlockRequest, Blocks, copy, fill};
use super::packet::{Packet, State};
use super::read::Source;
use super::write::StreamFile;
use crate::packet::PAGE;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};

/// Suffix of the names of packed streams.
pub(crate) const SUFFIX: &str = ".packed";

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
    Packed(Box<Ahead<File>>),
    /// Pages that are made of something else.
    Other(Box<dyn Made>),
}

/// A source of pages that are made of something else.
pub trait Made: Source + std::fmt::Debug + Send {}

impl<M: Source + std::fmt::Debug + Send> Made for M {}

impl StreamIn {
    /// A file of blocks, which these threads unpack.
    pub fn packed(file: File, unpackers: &Unpackers) -> Self {
        Self::Packed(Box::new(Ahead::new(file, unpackers)))
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

    fn exchange(&mut self, chunk: &mut Vec<u8>) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(_) | Self::Other(_) => Ok(None),
            Self::Packed(packed) => packed.exchange(chunk),
        }
    }

    fn within(&mut self, times: RangeInclusive<u64>) {
        match self {
            Self::Plain(_) => {}
            Self::Packed(packed) => packed.within(times),
            Self::Other(made) => made.within(times),
        }
    }

    fn heads_alone(&mut self) {
        match self {
            Self::Plain(_) => {}
            Self::Packed(packed) => packed.heads_alone(),
            Self::Other(made) => made.heads_alone(),
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
    blocks: Blocks<R>,
    wanted: BlockRequest,
    /// The block at hand, and how far its pages were read.
    pages: Vec<u8>,
    at: usize,
    damage: Option<String>,
}

impl<R: Read + Seek> Unpacked<R> {
    /// Reads blocks from where the input stands.
    pub fn new(input: R) -> Self {
        Self {
            blocks: Blocks::new(input),
            wanted: BlockRequest::default(),
            pages: Vec::new(),
            at: 0,
            damage: None,
        }
    }
}

impl<R: Read + Seek> Source for Unpacked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.at == self.pages.len() {
            self.at = 0;
            self.blocks.want(&self.wanted);
            self.blocks.next(&mut self.pages, &mut self.damage)?;
        }
        Ok(copy(&self.pages, &mut self.at, bytes))
    }

    fn within(&mut self, times: RangeInclusive<u64>) {
        self.wanted.within = times;
    }

    fn heads_alone(&mut self) {
        self.wanted.depth = Depth::Index;
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
        at += (BLOCK_HEADER + block.bytes(Depth::All)) as u64;
        packets += if at <= length { block.packets as u64 } else { 0 };
    }
    input.seek(SeekFrom::Start(0))?;
    Ok(packets)
}
