//! Access of a ring's reader to the memory that it shares with writers.

use kestrel_catalog::Result;
use kestrel_kernel::mmap::Mapping;
use std::sync::atomic::Ordering;

/// Memory that others write meanwhile; offsets in bytes, those of words multiples of 8.
pub trait Memory {
    /// A word, loaded with acquire ordering; 0 outside.
    fn load(&self, at: usize) -> u64;

    /// Stores a word with release ordering.
    fn store(&self, at: usize, value: u64);

    /// Copies bytes out; what is loaded after is not older.
    ///
    /// # Errors
    /// Outside of the memory.
    fn copy_out(&self, at: usize, to: &mut [u8]) -> Result<()>;

    /// Copies bytes in, before anybody reads them.
    ///
    /// # Errors
    /// Outside of the memory.
    fn copy_in(&self, at: usize, from: &[u8]) -> Result<()>;
}

impl Memory for Mapping {
    fn load(&self, at: usize) -> u64 {
        self.load_u64(at).unwrap_or(0)
    }

    fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.atomic_u64(at) {
            word.store(value, Ordering::Release);
        }
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) -> Result<()> {
        Ok(Self::copy_out(self, at, to)?)
    }

    fn copy_in(&self, at: usize, from: &[u8]) -> Result<()> {
        Ok(Self::copy_in(self, at, from)?)
    }
}
