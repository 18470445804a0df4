//! Reader of the flattened form in which makedumpfile and QEMU write dumps to pipes: pieces, each with its place in the whole file. It is read as if put together.

use super::bytes::{Fields, ReadAt, read_full};
use crate::error::Unreadable;
use std::collections::BTreeMap;
use std::io;

/// First bytes of a flattened file; numbers in it are big-endian.
const MAGIC: &[u8; 16] = b"makedumpfile\0\0\0\0";
/// Bytes of the header of a flattened file.
const HEADER: u64 = 4096;
/// Bytes of the header before each piece: its place and its length.
const PIECE: usize = 16;

/// A file, flattened or not.
#[derive(Debug)]
pub struct File<R> {
    inner: R,
    pieces: Option<Pieces>,
}

/// The pieces, by where they begin in the whole file: where they end there, and where they are in the flattened one. They do not overlap.
#[derive(Debug, Default)]
struct Pieces(BTreeMap<u64, (u64, u64)>);

impl Pieces {
    /// Adds a piece; what was there before is replaced, as a later write replaces an earlier one.
    fn insert(&mut self, start: u64, end: u64, place: u64) {
        let before = self.0.range(..start).next_back();
        if let Some((&at, &(until, from))) = before
            && until > start
        {
            self.0.insert(at, (start, from));
            if until > end {
                self.0.insert(end, (until, from + (end - at)));
            }
        }
        while let Some((&at, &(until, from))) = self.0.range(start..end).next() {
            self.0.remove(&at);
            if until > end {
                self.0.insert(end, (until, from + (end - at)));
            }
        }
        self.0.insert(start, (end, place));
    }

    /// The piece that covers `at`, or where the next one begins.
    fn find(&self, at: u64) -> Result<(u64, u64), Option<u64>> {
        match self.0.range(..=at).next_back() {
            Some((start, (end, place))) if at < *end => Ok((place + (at - start), end - at)),
            _ => Err(self.0.range(at..).next().map(|(start, _)| *start)),
        }
    }

    fn size(&self) -> u64 {
        self.0.values().next_back().map_or(0, |(end, _)| *end)
    }
}

impl<R: ReadAt> File<R> {
    /// Opens a file; finds the pieces if it is flattened.
    pub(super) fn new(inner: R) -> Result<Self, Unreadable> {
        let mut start = [0; MAGIC.len()];
        read_full(&inner, 0, &mut start)?;
        if start != *MAGIC {
            return Ok(Self::plain(inner));
        }
        let mut pieces = Pieces::default();
        let (mut at, size) = (HEADER, inner.size()?);
        let mut header = [0; PIECE];
        while read_full(&inner, at, &mut header)? == PIECE {
            let fields = Fields {
                bytes: &header,
                big_endian: true,
            };
            let (offset, bytes) = (fields.u64(0), fields.u64(8));
            // The end is marked by a piece of -1 bytes at -1; a truncated file ends within a piece.
            let place = at + PIECE as u64;
            let bytes = bytes.min(size.saturating_sub(place));
            let Some(end) = offset.checked_add(bytes).filter(|end| *end > offset) else {
                break;
            };
            // Every byte of the whole file is written once, so a place far beyond the flattened file's size is an error; it would make a hole too large to read.
            if end <= size.saturating_mul(2) {
                pieces.insert(offset, end, place);
            }
            at = place + bytes;
        }
        Ok(Self {
            inner,
            pieces: Some(pieces),
        })
    }

    /// Opens a file that is not flattened.
    pub(super) fn plain(inner: R) -> Self {
        Self { inner, pieces: None }
    }
}

impl<R: ReadAt> ReadAt for File<R> {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        let Some(pieces) = &self.pieces else {
            return self.inner.read_at(at, to);
        };
        let most = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(to.len());
        match pieces.find(at) {
            Ok((place, bytes)) => {
                let most = most(bytes);
                self.inner.read_at(place, &mut to[..most])
            }
            // No piece has these bytes: a hole, which reads as zeros.
            Err(Some(next)) => {
                let most = most(next - at);
                to[..most].fill(0);
                Ok(most)
            }
            Err(None) => Ok(0),
        }
    }

    fn size(&self) -> io::Result<u64> {
        match &self.pieces {
            Some(pieces) => Ok(pieces.size()),
            None => self.inner.size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_pieces_replace_earlier_ones() {
        let mut pieces = Pieces::default();
        pieces.insert(0, 100, 1000);
        pieces.insert(40, 60, 2000);
        assert_eq!(pieces.find(39), Ok((1039, 1)));
        assert_eq!(pieces.find(40), Ok((2000, 20)));
        assert_eq!(pieces.find(60), Ok((1060, 40)));
        assert_eq!(pieces.find(100), Err(None));
        pieces.insert(50, 200, 3000);
        assert_eq!(pieces.find(60), Ok((3010, 140)));
        pieces.insert(300, 301, 4000);
        assert_eq!(pieces.find(200), Err(Some(300)));
    }

    #[test]
    fn a_piece_that_belongs_nowhere_makes_no_endless_hole() {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(HEADER as usize, 0);
        for offset in [0_u64, 1 << 60] {
            bytes.extend(offset.to_be_bytes());
            bytes.extend(100_u64.to_be_bytes());
            bytes.extend([7; 100]);
        }
        assert_eq!(File::new(bytes).unwrap().size().unwrap(), 100);
    }
}
