//! The kernel's memory through /proc/kcore: bytes by address, without interpretation.

use crate::error::{Error, Result};
use crate::host::Host;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// An open /proc/kcore: an ELF file whose segments are the kernel's address ranges.
#[derive(Debug)]
pub struct Kcore {
    file: File,
    path: String,
    segments: Vec<Segment>,
}

/// A `PT_LOAD` program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    address: u64,
    size: u64,
    offset: u64,
}

/// Bytes of an ELF header, and of one program header, of 64-bit files.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const PT_LOAD: u32 = 1;

impl Kcore {
    /// Opens it and reads where the segments are.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` on a kernel without it, `EPERM` without CAP_SYS_RAWIO or where a lockdown bars it; [`Error::Format`].
    pub fn open(host: &Host) -> Result<Self> {
        let path = host.path("/proc/kcore");
        let text = path.display().to_string();
        let failed = |error: std::io::Error| Error::system("read", text.as_str(), error);
        let file = File::open(&path).map_err(failed)?;
        let mut header = [0u8; HEADER];
        file.read_exact_at(&mut header, 0).map_err(failed)?;
        let bad = |why: &str| Error::Format {
            subject: text.clone(),
            why: why.to_owned(),
        };
        // 64-bit, little-endian.
        if header[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
            return Err(bad("it is not a 64-bit ELF file"));
        }
        let (at, size, count) = (
            word(&header, 32),
            half(&header, 54) as usize,
            half(&header, 56) as usize,
        );
        if size < SEGMENT {
            return Err(bad("its program headers are too short"));
        }
        let mut table = vec![0u8; size * count];
        file.read_exact_at(&mut table, at).map_err(failed)?;
        let segments = table.chunks_exact(size).filter_map(segment).collect();
        Ok(Self {
            file,
            path: text,
            segments,
        })
    }

    /// Fills `bytes` with what is in memory from `address` on.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for addresses that no segment holds; [`Error::System`].
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let length = bytes.len() as u64;
        let holds =
            |s: &&Segment| address >= s.address && length <= s.size && address - s.address <= s.size - length;
        let segment = self
            .segments
            .iter()
            .find(holds)
            .ok_or_else(|| Error::Unavailable {
                what: "memory of the kernel",
                why: format!("{} does not hold {length} bytes at {address:#x}", self.path),
            })?;
        self.file
            .read_exact_at(bytes, segment.offset + (address - segment.address))
            .map_err(|error| Error::system("read", format!("{} at {address:#x}", self.path), error))
    }

    /// `length` bytes from `address` on.
    ///
    /// # Errors
    /// As [`Kcore::read`].
    pub fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn segment(row: &[u8]) -> Option<Segment> {
    let kind = u32::from_le_bytes([row[0], row[1], row[2], row[3]]);
    (kind == PT_LOAD).then(|| Segment {
        offset: word(row, 8),
        address: word(row, 16),
        size: word(row, 40),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with a note and one segment of `bytes` at `address`.
    fn image(address: u64, bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0u8; HEADER + 2 * SEGMENT];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
        file[54..56].copy_from_slice(&(SEGMENT as u16).to_le_bytes());
        file[56..58].copy_from_slice(&2u16.to_le_bytes());
        let at = HEADER + SEGMENT;
        file[HEADER] = 4;
        file[at] = 1;
        let begin = file.len() as u64;
        file[at + 8..at + 16].copy_from_slice(&begin.to_le_bytes());
        file[at + 16..at + 24].copy_from_slice(&address.to_le_bytes());
        file[at + 40..at + 48].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        file.extend_from_slice(bytes);
        file
    }

    #[test]
    fn bytes_by_address() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("proc")).unwrap();
        let host = Host::new(tree.path());
        assert!(Kcore::open(&host).is_err());
        std::fs::write(tree.path().join("proc/kcore"), image(0xffff_0000, b"abcdef")).unwrap();
        let kcore = Kcore::open(&host).unwrap();
        assert_eq!(kcore.bytes(0xffff_0002, 3).unwrap(), b"cde");
        assert_eq!(kcore.bytes(0xffff_0000, 6).unwrap(), b"abcdef");
        for (address, length) in [
            (0xffff_0004, 3),
            (0xfffe_ffff, 1),
            (0xffff_0000, 7),
            (u64::MAX, 2),
        ] {
            let error = kcore.bytes(address, length).unwrap_err().to_string();
            assert!(error.contains("does not hold"), "{error}");
        }
        std::fs::write(tree.path().join("proc/kcore"), [b'x'; 200]).unwrap();
        assert!(Kcore::open(&host).unwrap_err().to_string().contains("ELF"));
    }
}
