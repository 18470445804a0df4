//! Packed streams whose next blocks are unpacked on another thread while the records of those before are read.
//!
//! ```text
//! reader    block 0 ............ block 1 ............ block 2
//!              │  ▲                │  ▲
//!              ▼  │                ▼  │         what travels: the stream's blocks and a buffer
//! thread       block 1             block 2
//! ```

use super::block::Depth;
use super::block_file::{BlockRequest, Blocks, copy};
use super::read::Source;
use std::io::{self, Read, Seek};
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, available_parallelism};

/// The thread that unpacks blocks of all streams of a trace: it begins with the first of them, and ends with the last stream. There is none where one processor would have to do both.
#[derive(Clone, Debug, Default)]
pub struct Unpackers(Arc<OnceLock<Option<Sender<Job>>>>);

/// A job for the unpacking thread.
struct Job(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Unpackers {
    fn thread(&self) -> Option<&Sender<Job>> {
        let begin = || {
            available_parallelism().ok().filter(|many| many.get() > 1)?;
            let (sender, jobs) = channel::<Job>();
            let run = move || jobs.into_iter().for_each(|Job(job)| job());
            let thread = Builder::new().name("unpack".to_owned()).spawn(run);
            thread.ok().map(|_| sender)
        };
        self.0.get_or_init(begin).as_ref()
    }
}

/// The pages of a packed stream, as [`super::packed::Unpacked`] gives them, and the next block in the making.
#[derive(Debug)]
pub struct Ahead<R> {
    unpackers: Unpackers,
    blocks: BlockLocation<R>,
    /// Request for parts of blocks.
    wanted: BlockRequest,
    /// The block at hand, and how far its pages were read; none where it was given away.
    pages: Vec<u8>,
    at: usize,
    /// Whether a block was read.
    began: bool,
    damage: Option<String>,
}

/// Location of the blocks of a stream: here, or with the thread that unpacks them.
#[derive(Debug)]
enum BlockLocation<R> {
    /// Here, with a buffer for the next block.
    Here(Box<Blocks<R>>, Vec<u8>),
    /// On the thread, until it has unpacked the next one.
    There(Receiver<Unpacked<R>>),
    /// At the end, or lost with the thread.
    Nowhere,
}

/// A block that was unpacked.
#[derive(Debug)]
struct Unpacked<R> {
    blocks: Box<Blocks<R>>,
    pages: Vec<u8>,
    damage: Option<String>,
    read: io::Result<()>,
}

impl<R: Read + Seek> Unpacked<R> {
    fn next(mut blocks: Box<Blocks<R>>, mut pages: Vec<u8>) -> Self {
        let mut damage = None;
        let read = blocks.next(&mut pages, &mut damage);
        Self {
            blocks,
            pages,
            damage,
            read,
        }
    }
}

impl<R: Read + Seek + Send + 'static> Ahead<R> {
    /// Reads blocks from where the input stands.
    pub fn new(input: R, unpackers: &Unpackers) -> Self {
        Self {
            unpackers: unpackers.clone(),
            blocks: BlockLocation::Here(Box::new(Blocks::new(input)), Vec::new()),
            wanted: BlockRequest::default(),
            pages: Vec::new(),
            at: 0,
            began: false,
            damage: None,
        }
    }

    /// Makes the next block the one at hand.
    fn next_block(&mut self) -> io::Result<()> {
        let next = match std::mem::replace(&mut self.blocks, BlockLocation::Nowhere) {
            BlockLocation::Here(mut blocks, spare) => {
                blocks.want(&self.wanted);
                Unpacked::next(blocks, spare)
            }
            BlockLocation::There(unpacked) => unpacked
                .recv()
                .map_err(|_| io::Error::other("the thread that unpacks its blocks has ended"))?,
            BlockLocation::Nowhere => {
                // The pages there were read, or are a reader's buffer.
                self.pages.clear();
                self.at = 0;
                return Ok(());
            }
        };
        self.damage = self.damage.take().or(next.damage);
        let spare = std::mem::replace(&mut self.pages, next.pages);
        self.at = 0;
        self.blocks = BlockLocation::Here(next.blocks, spare);
        next.read
    }

    /// Lets the thread unpack the next block, unless it is there already.
    fn ask(&mut self) {
        let Some(thread) = self.unpackers.thread() else {
            return;
        };
        self.blocks = match std::mem::replace(&mut self.blocks, BlockLocation::Nowhere) {
            BlockLocation::Here(mut blocks, spare) => {
                blocks.want(&self.wanted);
                let (sender, unpacked) = channel();
                // The reader that waited for it may be gone.
                let job = Job(Box::new(move || _ = sender.send(Unpacked::next(blocks, spare))));
                // If the thread is gone, the one that takes the block learns of it.
                _ = thread.send(job);
                BlockLocation::There(unpacked)
            }
            elsewhere => elsewhere,
        };
    }
}

impl<R: Read + Seek + Send + 'static> Source for Ahead<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.at == self.pages.len() {
            self.next_block()?;
        } else {
            // A reader of the first records alone has no use for a second block.
            self.ask();
        }
        Ok(copy(&self.pages, &mut self.at, bytes))
    }

    fn exchange(&mut self, chunk: &mut Vec<u8>) -> io::Result<Option<usize>> {
        if self.at < self.pages.len() {
            return Ok(None);
        }
        // The reader's buffer becomes the spare one, which the block after this one is unpacked into.
        std::mem::swap(&mut self.pages, chunk);
        let read = self.next_block();
        std::mem::swap(&mut self.pages, chunk);
        self.at = self.pages.len();
        read?;
        // A reader of the first records alone has no use for a second block.
        if self.began && !chunk.is_empty() {
            self.ask();
        }
        self.began = true;
        Ok(Some(chunk.len()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn behind_a_thread_that_ended_there_is_nothing() {
        let lost = || {
            let mut ahead = Ahead::new(Cursor::new(Vec::new()), &Unpackers::default());
            ahead.blocks = BlockLocation::There(channel().1);
            ahead
        };
        let mut ahead = lost();
        let mut chunk = b"read before".to_vec();
        let error = ahead.exchange(&mut chunk).unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
        assert_eq!((ahead.exchange(&mut chunk).unwrap(), chunk.len()), (Some(0), 0));
        let mut ahead = lost();
        let mut bytes = [0; 8];
        ahead.pages = b"read before".to_vec();
        ahead.at = ahead.pages.len();
        ahead.read(&mut bytes).unwrap_err();
        assert_eq!(ahead.read(&mut bytes).unwrap(), 0);
    }
}
