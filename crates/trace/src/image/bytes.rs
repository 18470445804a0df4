//! Random access to the bytes of an image: of a file, or memory in tests and of live maps; short reads mean that there is no more.

use std::io;
use std::os::unix::fs::FileExt;

pub use std::fs::File;

/// Bytes that can be read at any place.
pub trait ReadAt {
    /// Reads into `to` from offset `at` on; gives how many bytes, 0 at the end.
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize>;

    /// Number of bytes there are.
    fn size(&self) -> io::Result<u64>;
}

impl ReadAt for Box<dyn ReadAt> {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(at, to)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

impl ReadAt for File {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, to, at)
    }

    fn size(&self) -> io::Result<u64> {
        // Of a block device the metadata say 0.
        let mut file = self;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..));
        let from = from.unwrap_or_default();
        let bytes = from.len().min(to.len());
        to[..bytes].copy_from_slice(&from[..bytes]);
        Ok(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// Reads until `to` is full or the bytes end; gives how many were read.
pub(crate) fn read_full(from: &impl ReadAt, at: u64, to: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < to.len() {
        let Some(at) = at.checked_add(done as u64) else {
            break;
        };
        match from.read_at(at, &mut to[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Little-endian numbers in a header; those beyond its end are 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    /// Big-endian, where the format allows it.
    pub(super) big_endian: bool,
}

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        let mut array = bytes.copied().unwrap_or([0; N]);
        if self.big_endian {
            array.reverse();
        }
        array
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
}
