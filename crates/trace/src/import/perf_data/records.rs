//! The records of a `perf.data` file one by one, those of compressed ones among them. One record and a piece of what is unpacked are in memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Types of records that are no events' (`enum perf_user_event_type` in tools/lib/perf/include/perf/event.h).
pub(super) mod kind {
    pub(in super::super) const ATTRIBUTES: u32 = 64;
    pub(in super::super) const TRACING_DATA: u32 = 66;
    pub(in super::super) const AUXTRACE: u32 = 71;
    pub(in super::super) const EVENT_UPDATE: u32 = 78;
    pub(in super::super) const FEATURE: u32 = 80;
    pub(in super::super) const COMPRESSED: u32 = 81;
    pub(in super::super) const COMPRESSED2: u32 = 83;
}

/// Bytes of a record's head.
pub(super) const HEAD: usize = 8;
/// Most bytes of a description of tracepoints in a pipe.
const MAX: u64 = 1 << 28;
/// Bytes that are unpacked at once.
const PIECE: usize = 1 << 17;
/// Bytes of a piece of a file that are read at once.
const CHUNK: usize = 1 << 17;

/// Byte range of records in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    begin: u64,
    end: u64,
}

impl Range {
    pub(super) fn new(begin: u64, end: u64) -> Self {
        Self { begin, end }
    }
}

/// A record's head, and where it stands in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    pub(super) kind: u32,
    pub(super) about: u16,
    pub(super) at: u64,
}

/// Records in the order of the file.
pub(super) struct Records {
    file: BufReader<File>,
    begin: u64,
    at: u64,
    end: u64,
    started: bool,
    /// The record at hand.
    record: Vec<u8>,
    unpacker: Option<Decoder<'static>>,
    /// Packed bytes, how far they were unpacked, and where they stand in the file.
    packed: Vec<u8>,
    packed_at: usize,
    packed_from: u64,
    /// Whether there may be more of it, though all of it was taken: what was unpacked last filled its room.
    more: bool,
    /// Unpacked bytes, and where the next record begins.
    unpacked: Vec<u8>,
    next: usize,
    damage: Option<String>,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Records at {}", self.at)
    }
}

impl Records {
    pub(super) fn new(file: File, range: Range) -> Self {
        Self {
            file: BufReader::with_capacity(CHUNK, file),
            begin: range.begin,
            at: range.begin,
            end: range.end,
            started: false,
            record: Vec::new(),
            unpacker: None,
            packed: Vec::new(),
            packed_at: 0,
            packed_from: 0,
            more: false,
            unpacked: Vec::new(),
            next: 0,
            damage: None,
        }
    }

    /// Damage found.
    pub(super) fn damage(&mut self) -> Option<String> {
        self.damage.take()
    }

    /// Reads to the next record, which [`Records::body`] has then.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        // Two of these may share a file, and its place in it.
        if !self.started {
            self.file.seek(SeekFrom::Start(self.begin))?;
            self.started = true;
        }
        loop {
            if let Some(record) = self.unpacked() {
                return Ok(Some(record));
            }
            if (self.more || self.packed_at < self.packed.len()) && self.unpack() {
                continue;
            }
            let Some(record) = self.on_file()? else {
                if self.next < self.unpacked.len() {
                    self.broken(self.packed_from, "what is compressed ends within a record");
                    self.next = self.unpacked.len();
                }
                return Ok(None);
            };
            let packed = match record.kind {
                kind::COMPRESSED => self.record.get(HEAD..),
                kind::COMPRESSED2 => self.record.get(HEAD..HEAD + 8).and_then(|size| {
                    let size = u64::from_le_bytes(*size.first_chunk()?);
                    self.record.get(HEAD + 8..)?.get(..usize::try_from(size).ok()?)
                }),
                _ => return Ok(Some(record)),
            };
            match packed {
                Some(packed) => {
                    self.packed.clear();
                    self.packed.extend_from_slice(packed);
                    (self.packed_at, self.packed_from) = (0, record.at);
                }
                None => self.broken(record.at, "a compressed record that is longer than it is"),
            }
        }
    }

    /// The record's bytes behind its head.
    pub(super) fn body(&self) -> &[u8] {
        self.record.get(HEAD..).unwrap_or_default()
    }

    fn broken(&mut self, at: u64, what: &str) {
        self.damage.get_or_insert_with(|| format!("at byte {at}: {what}"));
    }

    /// Ends the search: nothing can be found behind this place.
    fn end_at(&mut self, at: u64, what: &str) {
        self.broken(at, &format!("{what}; what is behind it is not read"));
        self.at = self.end;
    }

    /// The next of the records that were unpacked.
    fn unpacked(&mut self) -> Option<Record> {
        let rest = self.unpacked.get(self.next..)?;
        let head: [u8; HEAD] = *rest.first_chunk()?;
        let (record, size) = parse(head, self.packed_from);
        if size < HEAD {
            self.broken(
                record.at,
                &format!("a compressed record of {size} bytes; what is packed with it is not read"),
            );
            (self.packed_at, self.next) = (self.packed.len(), 0);
            self.unpacked.clear();
            return None;
        }
        let bytes = rest.get(..size)?;
        self.record.clear();
        self.record.extend_from_slice(bytes);
        self.next += size;
        Some(record)
    }

    /// Unpacks a piece more; false where that is not possible.
    fn unpack(&mut self) -> bool {
        self.unpacked.drain(..self.next);
        self.next = 0;
        if self.unpacker.is_none() {
            self.unpacker = Decoder::new().ok();
        }
        let Some(unpacker) = &mut self.unpacker else {
            self.end_at(self.packed_from, "there is no memory to unpack it");
            return false;
        };
        let from = self.unpacked.len();
        self.unpacked.resize(from + PIECE, 0);
        let mut input = InBuffer::around(&self.packed[self.packed_at..]);
        let mut output = OutBuffer::around(&mut self.unpacked[from..]);
        let done = unpacker.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.unpacked.truncate(from + written);
        self.packed_at += read;
        self.more = written == PIECE;
        match done {
            Err(error) => {
                let why = format!("what is compressed cannot be unpacked ({error})");
                self.packed_at = self.packed.len();
                self.end_at(self.packed_from, &why);
                false
            }
            // There may be more of it inside, of which no byte is to be read.
            Ok(_) if read == 0 && written == 0 => {
                self.packed_at = self.packed.len();
                false
            }
            Ok(_) => true,
        }
    }

    /// The next record on file, compressed or not.
    fn on_file(&mut self) -> io::Result<Option<Record>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let at = self.at;
        let (record, size) = parse(head, at);
        if size < HEAD {
            self.end_at(at, &format!("a record of {size} bytes"));
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.record);
        bytes.clear();
        bytes.extend_from_slice(&head);
        bytes.resize(size, 0);
        let whole = self.fill(&mut bytes[HEAD..]);
        self.record = bytes;
        if !whole? {
            return Ok(None);
        }
        self.at += size as u64;
        self.behind(record)?;
        Ok(Some(record))
    }

    /// Reads or steps over what stands behind a record and is not in its length.
    fn behind(&mut self, record: Record) -> io::Result<()> {
        match record.kind {
            kind::TRACING_DATA => {
                let size = self
                    .body()
                    .first_chunk()
                    .map_or(0, |size| u32::from_le_bytes(*size));
                let size = u64::from(size).next_multiple_of(8);
                if size > MAX || self.at + size > self.end {
                    self.end_at(
                        record.at,
                        "a description of tracepoints that is longer than the file",
                    );
                    return Ok(());
                }
                self.record.resize(HEAD + size as usize, 0);
                let mut bytes = std::mem::take(&mut self.record);
                let whole = self.fill(&mut bytes[HEAD..]);
                self.record = bytes;
                whole?;
                self.at += size;
            }
            kind::AUXTRACE => {
                let size = self
                    .body()
                    .first_chunk()
                    .map_or(0, |size| u64::from_le_bytes(*size));
                let to = self.at.saturating_add(size);
                if to > self.end {
                    self.end_at(record.at, "processor traces that are longer than the file");
                    return Ok(());
                }
                self.file.seek_relative(size as i64)?;
                self.at = to;
            }
            _ => {}
        }
        Ok(())
    }

    /// Fills `bytes`; false where the file ends before.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.end_at(self.at, "the file ends within a record");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn parse(head: [u8; HEAD], at: u64) -> (Record, usize) {
    let [a, b, c, d, about @ .., e, f] = head;
    let record = Record {
        kind: u32::from_le_bytes([a, b, c, d]),
        about: u16::from_le_bytes(about),
        at,
    };
    (record, usize::from(u16::from_le_bytes([e, f])))
}
