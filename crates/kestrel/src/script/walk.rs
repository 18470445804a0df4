//! Iterators while they walk: a thread reads their files, so that what their handlers print is performed meanwhile and their rings do not fill.

use kestrel_catalog::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::thread::JoinHandle;

/// A thread that reads iterators to their ends.
#[derive(Debug)]
pub(super) struct Walk(JoinHandle<std::io::Result<()>>);

impl Walk {
    /// Begins to read these files, one after the other; nothing where there are none.
    pub(super) fn begin(files: Vec<File>) -> Option<Self> {
        if files.is_empty() {
            return None;
        }
        let read = || files.into_iter().try_for_each(read);
        Some(Self(std::thread::spawn(read)))
    }

    /// Whether all files have been read.
    pub(super) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Result of the reading, once it has ended.
    pub(super) fn outcome(self) -> Result<()> {
        let read = self.0.join();
        let read = read.unwrap_or_else(|_| Err(ErrorKind::Other.into()));
        read.map_err(Error::io("walk by", "an iterator"))
    }
}

/// Reads to the end. A read ends early after many objects of which nothing was written (`MAX_ITER_OBJECTS` in kernel/bpf/bpf_iter.c): the next one goes on there.
fn read(mut file: impl Read) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Reads(Vec<std::io::Result<usize>>);

    impl Read for Reads {
        fn read(&mut self, _bytes: &mut [u8]) -> std::io::Result<usize> {
            self.0.remove(0)
        }
    }

    #[test]
    fn a_walk_goes_on_where_a_read_ended_early() {
        let early = || Err(ErrorKind::WouldBlock.into());
        let mut reads = Reads(vec![early(), Ok(3), early(), Ok(0), Ok(1)]);
        read(&mut reads).unwrap();
        assert_eq!(reads.0.len(), 1, "nothing is read behind the end");
        assert!(read(Reads(vec![Err(ErrorKind::InvalidInput.into())])).is_err());
    }
}
