//! Memory that the kernel shares with us, as a safe view: bounds-checked atomic access and copies, never a `&[u8]` of what others write.

use crate::error::{Errno, Error, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Access that a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads and copies out of it.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// A shared mapping of a BPF map (an array made with [`crate::bpf::sys::MAP_MMAPABLE`]) or of a file.
///
/// The kernel and other processes may write it at any time; so its bytes are only reached through atomic operations, or copied out
/// (a copy may then be torn between words, never within an aligned 8 bytes). Mapping a BPF map keeps the map alive.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    access: Access,
}

// SAFETY: the memory is not bound to a thread, and all access goes through atomics or the kernel.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes from `offset` (a multiple of the page size) on. For an array map that is the elements laid end to end, each rounded
    /// up to 8 bytes.
    ///
    /// Do not map a file that may be cut shorter: touching the missing part kills the process (`SIGBUS`).
    ///
    /// # Errors
    /// [`Error::System`]: `EPERM` for write access to a frozen or read-only map, `EINVAL` for a map that cannot be mapped.
    pub fn new(fd: BorrowedFd<'_>, offset: u64, len: usize, access: Access) -> Result<Self> {
        let protection = match access {
            Access::ReadOnly => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use.
        unsafe { Self::map(fd, offset, len, access, protection, libc::MAP_SHARED) }
    }

    /// # Safety
    /// `flags` must not place the mapping over memory in use (`MAP_FIXED`).
    unsafe fn map(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        access: Access,
        protection: i32,
        flags: i32,
    ) -> Result<Self> {
        // SAFETY: the caller's promise; the kernel checks the rest.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                flags,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        let failed = || Error::system("map into memory", format!("{len} bytes"), Errno::last());
        if start == libc::MAP_FAILED {
            return Err(failed());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(failed)?;
        Ok(Self { start, len, access })
    }

    /// Bytes of the mapping.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped (the kernel refuses that, so: false).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allowed access.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The address of `size` bytes at `offset`, if they are inside and aligned to their size.
    fn aligned(&self, offset: usize, size: usize) -> Option<NonNull<u8>> {
        let inside = offset.is_multiple_of(size) && offset.checked_add(size)? <= self.len;
        // SAFETY: `offset` is inside the mapping.
        inside.then(|| unsafe { self.start.add(offset) })
    }

    /// The 64-bit word at `offset` (a multiple of 8), loaded with acquire ordering; `None` outside the mapping.
    pub fn load_u64(&self, offset: usize) -> Option<u64> {
        // SAFETY: in bounds and aligned; shared memory is only ever accessed atomically; a load never writes.
        let word = unsafe { self.aligned(offset, 8)?.cast::<AtomicU64>().as_ref() };
        Some(word.load(Ordering::Acquire))
    }

    /// The 32-bit word at `offset` (a multiple of 4), loaded with acquire ordering; `None` outside the mapping.
    pub(crate) fn load_u32(&self, offset: usize) -> Option<u32> {
        // SAFETY: as in `load_u64`.
        let word = unsafe { self.aligned(offset, 4)?.cast::<AtomicU32>().as_ref() };
        Some(word.load(Ordering::Acquire))
    }

    /// The 64-bit word at `offset` (a multiple of 8) for any atomic operation; `None` outside the mapping or if it is read-only.
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let word = self
            .aligned(offset, 8)
            .filter(|_| self.access == Access::ReadWrite)?;
        // SAFETY: in bounds, aligned, writable, and alive as long as `self`; shared memory is only ever accessed atomically.
        Some(unsafe { word.cast::<AtomicU64>().as_ref() })
    }

    fn inside(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::Argument {
                subject: format!("{len} bytes at {offset}"),
                why: format!("the mapping has {} bytes", self.len),
            }),
        }
    }

    /// Copies bytes out, eight at a time where aligned; an aligned word is never torn, its neighbours may be from another time.
    ///
    /// # Errors
    /// [`Error::Argument`] outside the mapping.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.inside(offset, to.len())?;
        let head = (offset.next_multiple_of(8) - offset).min(to.len());
        let (bytes, words) = to.split_at_mut(head);
        self.copy_bytes_out(offset, bytes);
        let mut offset = offset + head;
        let mut words = words.chunks_exact_mut(8);
        for chunk in &mut words {
            // SAFETY: in bounds (checked above) and aligned (the head was skipped); only atomics touch this memory.
            let word = unsafe { self.start.add(offset).cast::<AtomicU64>().as_ref() };
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            offset += 8;
        }
        self.copy_bytes_out(offset, words.into_remainder());
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(())
    }

    /// The caller has checked the bounds.
    fn copy_bytes_out(&self, offset: usize, to: &mut [u8]) {
        for (index, byte) in to.iter_mut().enumerate() {
            // SAFETY: in bounds by the callers' check; only atomics touch this memory.
            let from = unsafe { self.start.add(offset + index).cast::<AtomicU8>().as_ref() };
            *byte = from.load(Ordering::Relaxed);
        }
    }

    /// The bytes of a range, copied as by [`Mapping::copy_out`].
    ///
    /// # Errors
    /// [`Error::Argument`] outside the mapping.
    pub fn to_vec(&self, range: Range<usize>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        self.copy_out(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes in, eight at a time where aligned: for what is set up before anybody reads it.
    ///
    /// # Errors
    /// [`Error::Argument`] outside the mapping or if it is read-only.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.inside(offset, from.len())?;
        if self.access == Access::ReadOnly {
            return Err(Error::Argument {
                subject: "a memory mapping".to_owned(),
                why: "it is read-only".to_owned(),
            });
        }
        let head = (offset.next_multiple_of(8) - offset).min(from.len());
        let (bytes, words) = from.split_at(head);
        self.copy_bytes_in(offset, bytes);
        let mut offset = offset + head;
        let (words, rest) = words.as_chunks::<8>();
        for word in words {
            // SAFETY: in bounds and writable (checked above), aligned (the head was skipped); only atomics touch this memory.
            let to = unsafe { self.start.add(offset).cast::<AtomicU64>().as_ref() };
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            offset += 8;
        }
        self.copy_bytes_in(offset, rest);
        std::sync::atomic::fence(Ordering::Release);
        Ok(())
    }

    /// The caller has checked the bounds and that the mapping is writable.
    fn copy_bytes_in(&self, offset: usize, from: &[u8]) {
        for (index, byte) in from.iter().enumerate() {
            // SAFETY: in bounds and writable by the callers' checks; only atomics touch this memory.
            let to = unsafe { self.start.add(offset + index).cast::<AtomicU8>().as_ref() };
            to.store(*byte, Ordering::Relaxed);
        }
    }

    /// Writes a range to a file with write(2) straight from the mapping; returns how much was taken (a write may be short).
    /// The bytes written are those that were there at some time during the call.
    ///
    /// # Errors
    /// [`Error::Argument`] outside the mapping; [`Error::System`]: `ENOSPC`, `EPIPE`, …
    pub fn write_to(&self, range: Range<usize>, file: BorrowedFd<'_>) -> Result<usize> {
        self.inside(range.start, range.len())?;
        loop {
            // SAFETY: the range is inside the mapping; only the kernel reads it.
            let written = unsafe {
                libc::write(
                    file.as_raw_fd(),
                    self.start.add(range.start).as_ptr().cast(),
                    range.len(),
                )
            };
            match (written, Errno::last()) {
                (0.., _) => return Ok(written as usize),
                (_, Errno::EINTR) => {}
                (_, errno) => return Err(Error::system("write", format!("{} bytes", range.len()), errno)),
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by us with this length, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A private, read-only mapping of a file whose content never changes, usable as bytes.
#[derive(Debug)]
pub(crate) struct Immutable(Mapping);

impl Immutable {
    /// # Safety
    /// The file must not be changed or cut while this lives: true of the kernel's own BTF in sysfs, which is part of its image.
    pub(crate) unsafe fn new(fd: BorrowedFd<'_>, len: usize) -> Result<Self> {
        // SAFETY: no MAP_FIXED.
        unsafe { Mapping::map(fd, 0, len, Access::ReadOnly, libc::PROT_READ, libc::MAP_PRIVATE) }.map(Self)
    }
}

impl AsRef<[u8]> for Immutable {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped for as long as `self` lives; by the promise given to `new`, the file is not changed.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    fn file(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn copies_agree_with_the_file_at_every_alignment() {
        let bytes: Vec<u8> = (0..100u8).collect();
        let file = file(&bytes);
        let map = Mapping::new(file.as_fd(), 0, 100, Access::ReadOnly).unwrap();
        for start in 0..20 {
            for end in start..100 {
                assert_eq!(map.to_vec(start..end).unwrap(), &bytes[start..end]);
            }
        }
        assert_eq!(map.load_u32(4), Some(u32::from_ne_bytes([4, 5, 6, 7])));
    }

    #[test]
    fn copy_in_writes_its_bytes_alone_at_every_alignment() {
        for start in 0..20 {
            for len in 0..30 {
                let file = file(&[0xee; 64]);
                let map = Mapping::new(file.as_fd(), 0, 64, Access::ReadWrite).unwrap();
                let bytes: Vec<u8> = (1..=len as u8).collect();
                map.copy_in(start, &bytes).unwrap();
                let mut expected = [0xee; 64];
                expected[start..start + len].copy_from_slice(&bytes);
                assert_eq!(map.to_vec(0..64).unwrap(), expected, "{len} bytes at {start}");
            }
        }
    }

    #[test]
    fn bounds_alignment_and_access_are_checked() {
        let file = file(&[0; 64]);
        let map = Mapping::new(file.as_fd(), 0, 64, Access::ReadOnly).unwrap();
        assert_eq!(map.load_u64(56), Some(0));
        assert_eq!(map.load_u64(60), None);
        assert_eq!(map.load_u64(64), None);
        assert_eq!(map.load_u64(usize::MAX - 7), None);
        assert!(map.atomic_u64(0).is_none(), "read-only");
        assert!(map.copy_in(0, b"x").is_err());
        assert!(map.to_vec(60..65).is_err());
    }

    #[test]
    fn stores_reach_the_file_and_write_to_copies_it() {
        let mut file = file(&[0; 64]);
        let map = Mapping::new(file.as_fd(), 0, 64, Access::ReadWrite).unwrap();
        map.copy_in(3, b"hello").unwrap();
        map.atomic_u64(8).unwrap().store(u64::MAX, Ordering::Release);
        let mut out = tempfile::tempfile().unwrap();
        assert_eq!(map.write_to(3..16, out.as_fd()).unwrap(), 13);
        let mut text = Vec::new();
        out.rewind().unwrap();
        out.read_to_end(&mut text).unwrap();
        assert_eq!(text, b"hello\xff\xff\xff\xff\xff\xff\xff\xff");
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(&all[3..8], b"hello");
    }
}
