//! The pages of a CPU in a `trace.dat`, one by one: as they lie there, or out of compressed chunks, one of which is in memory.

use super::head::{Packing, Part};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Most bytes of a chunk, packed and not.
const MAX: u32 = 1 << 26;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// The pages of a CPU.
#[derive(Debug)]
pub(super) struct Pages {
    file: Arc<File>,
    at: u64,
    end: u64,
    page: usize,
    /// Chunks that are left, where there are such.
    chunks: Option<u32>,
    started: bool,
    packing: Packing,
    held: Vec<u8>,
    next: usize,
    damage: Option<String>,
}

impl Pages {
    pub(super) fn new(file: Arc<File>, part: &Part, packing: Packing, page: usize) -> Self {
        Self {
            file,
            at: part.at,
            // The size of compressed ones is that of the chunks, without the word before them that counts them.
            end: part
                .at
                .saturating_add(part.size)
                .saturating_add(if part.packed { 4 } else { 0 }),
            page,
            chunks: part.packed.then_some(0),
            started: false,
            packing,
            held: Vec::new(),
            next: 0,
            damage: None,
        }
    }

    pub(super) fn damage(&mut self) -> Option<String> {
        self.damage.take()
    }

    /// The next page.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if self.held.len() - self.next < self.page {
            let ended = match self.chunks {
                None => !self.more()?,
                Some(_) => !self.chunk()?,
            };
            if ended {
                return Ok(None);
            }
        }
        let page = self.held.get(self.next..self.next + self.page);
        self.next += self.page;
        Ok(page)
    }

    fn broken(&mut self, at: u64, what: &str) {
        self.damage
            .get_or_insert_with(|| format!("at byte {at}: {what}; what is behind it is not read"));
        self.at = self.end;
        self.chunks = self.chunks.map(|_| 0);
    }

    /// Reads more pages as they lie there; false where there are none.
    fn more(&mut self) -> io::Result<bool> {
        self.held.drain(..self.next);
        self.next = 0;
        let most = (CHUNK.max(self.page)) as u64;
        let size = self.end.saturating_sub(self.at).min(most) as usize;
        if size == 0 {
            if !self.held.is_empty() {
                let at = self.at;
                self.held.clear();
                self.broken(at, "a page is cut");
            }
            return Ok(false);
        }
        let from = self.held.len();
        self.held.resize(from + size, 0);
        let read = self.file.read_at(&mut self.held[from..], self.at)?;
        self.held.truncate(from + read);
        self.at += read as u64;
        if read == 0 {
            self.held.clear();
            self.broken(self.at, "the file was cut");
            return Ok(false);
        }
        match self.held.len() < self.page {
            true => self.more(),
            false => Ok(true),
        }
    }

    fn word(&mut self) -> io::Result<Option<u32>> {
        let mut word = [0; 4];
        match self.file.read_exact_at(&mut word, self.at) {
            Ok(()) => self.at += 4,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.broken(self.at, "the file was cut");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        Ok(Some(u32::from_le_bytes(word)))
    }

    /// Unpacks the next chunk that has a page; false where there is none.
    fn chunk(&mut self) -> io::Result<bool> {
        if !self.started {
            self.started = true;
            if self.at >= self.end {
                return Ok(false);
            }
            self.chunks = self.word()?;
        }
        while let Some(left @ 1..) = self.chunks {
            self.chunks = Some(left - 1);
            let at = self.at;
            let (Some(packed), Some(size)) = (self.word()?, self.word()?) else {
                return Ok(false);
            };
            if packed > MAX || size > MAX || self.at + u64::from(packed) > self.end {
                self.broken(at, "a compressed chunk is longer than its CPU's part");
                return Ok(false);
            }
            let mut bytes = vec![0; packed as usize];
            if self.file.read_exact_at(&mut bytes, self.at).is_err() {
                self.broken(at, "the file was cut within a compressed chunk");
                return Ok(false);
            }
            self.at += u64::from(packed);
            match self.packing.unpack(&bytes, size as usize) {
                Some(unpacked) => self.held = unpacked,
                None => {
                    self.broken(at, "a compressed chunk cannot be unpacked");
                    return Ok(false);
                }
            }
            self.next = 0;
            if self.held.len() >= self.page {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
