//! Files of blocks: their pages, block by block, whatever is cut or damaged said.

use super::block::{BLOCK_HEADER, BlockHeader, Depth, Unpacker};
use std::io::{self, Read, Seek};
use std::ops::RangeInclusive;

/// A request to the block file.
#[derive(Clone, Debug)]
pub(super) struct BlockRequest {
    /// The times: of blocks without records in them only the headers count.
    pub(super) within: RangeInclusive<u64>,
    /// Depth for the others.
    pub(super) depth: Depth,
}

impl Default for BlockRequest {
    fn default() -> Self {
        Self {
            within: 0..=u64::MAX,
            depth: Depth::All,
        }
    }
}

impl BlockRequest {
    /// Depth to which a block is unpacked.
    fn of(&self, block: &BlockHeader) -> Depth {
        match block.end_ns >= *self.within.start() && block.begin_ns <= *self.within.end() {
            true => self.depth,
            false => Depth::PacketHeaders,
        }
    }
}

/// The blocks of a packed stream, one after the other.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    input: R,
    unpacker: Unpacker,
    /// Bytes of the block at hand as they are on file.
    bytes: Vec<u8>,
    wanted: BlockRequest,
    count: u64,
    ended: bool,
}

impl<R: Read + Seek> Blocks<R> {
    /// Reads from where the input stands.
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            unpacker: Unpacker::default(),
            bytes: Vec::new(),
            wanted: BlockRequest::default(),
            count: 0,
            ended: false,
        }
    }

    /// Sets the request, from the next block on.
    pub(super) fn want(&mut self, wanted: &BlockRequest) {
        self.wanted.clone_from(wanted);
    }

    /// Puts the pages of the next block that holds together in the place of those that are there: none at the end. The first damage on the way is said, unless some was said before.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub(super) fn next(&mut self, pages: &mut Vec<u8>, damage: &mut Option<String>) -> io::Result<()> {
        let found = self.find(pages, damage);
        if !matches!(found, Ok(true)) {
            pages.clear();
        }
        found.map(|_| ())
    }

    /// Finds and unpacks the next block; false at the end.
    fn find(&mut self, pages: &mut Vec<u8>, damage: &mut Option<String>) -> io::Result<bool> {
        let mut broken = |block: u64, why: &str| {
            damage.get_or_insert_with(|| format!("block {block}: {why}"));
        };
        while !self.ended {
            let cut = |there: usize| format!("only {there} bytes of it are there, the file was cut");
            let mut header = [0; BLOCK_HEADER];
            let there = fill(&mut self.input, &mut header)?;
            if there == 0 {
                break;
            }
            let number = self.count;
            self.count += 1;
            if there < header.len() {
                broken(number, &cut(there));
                break;
            }
            let block = match BlockHeader::parse(&header) {
                Ok(block) => block,
                Err(why) => {
                    broken(number, &format!("{why}; what is behind it is not read"));
                    break;
                }
            };
            let bytes = block.bytes(self.wanted.of(&block));
            self.bytes.resize(bytes, 0);
            let there = fill(&mut self.input, &mut self.bytes)?;
            if there < bytes {
                broken(number, &cut(BLOCK_HEADER + there));
                break;
            }
            let rest = block.bytes(Depth::All) - bytes;
            // A place behind the end of a file that was cut can be sought: its last byte is read.
            if rest > 0 {
                self.input.seek_relative(rest as i64 - 1)?;
                if fill(&mut self.input, &mut [0])? == 0 {
                    broken(number, "not all of it is there, the file was cut");
                    break;
                }
            }
            match self.unpacker.unpack(&block, &self.bytes, pages) {
                Ok(()) => return Ok(true),
                Err(why) => broken(
                    number,
                    &format!("{why}; its {} packets are missing", block.packets),
                ),
            }
        }
        self.ended = true;
        Ok(false)
    }
}

/// Copies what has room of pages that were read up to there.
pub(super) fn copy(pages: &[u8], at: &mut usize, bytes: &mut [u8]) -> usize {
    let rest = pages.get(*at..).unwrap_or_default();
    let read = rest.len().min(bytes.len());
    bytes[..read].copy_from_slice(&rest[..read]);
    *at += read;
    read
}

/// Reads until all of `bytes` is there or the input ends; gives how many were read.
pub(super) fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
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
