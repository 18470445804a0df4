//! Memory that lies in its file as it is, in one run of bytes (raw) or several (ELF).

use super::bytes::{ReadAt, read_full};
use super::found::{Each, PagePlace, Progress, Scanned, marked};
use crate::ctf::packet::Page;
use crate::packet::PAGE;
use std::io;

/// Bytes of a file that are memory, beginning with the first byte of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset in the file.
    pub start: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Runs of a file.
#[derive(Debug)]
pub struct Runs<R> {
    file: R,
    runs: Vec<Run>,
}

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

impl<R: ReadAt> Runs<R> {
    pub(super) fn new(file: R, runs: Vec<Run>) -> Self {
        Self { file, runs }
    }

    pub(super) fn scan(&self, each: Each<'_>, progress: Progress<'_>) -> io::Result<Scanned> {
        let size = self.file.size()?;
        let there = |run: &Run| run.bytes.min(size.saturating_sub(run.start));
        let total = self.runs.iter().map(there).fold(0, u64::saturating_add);
        // Runs may overlap (the kernel's text is there twice in some files), but not without end.
        let total = total.min(size.saturating_mul(2));
        let mut scanned = Scanned::default();
        let mut chunk = vec![0; CHUNK];
        for run in &self.runs {
            let missing = run.bytes.saturating_sub(there(run)) / u64::from(PAGE);
            scanned.missed(missing, || {
                "the file ends before the memory that it describes".to_owned()
            });
            let mut done = 0;
            while done < there(run) && scanned.bytes < total {
                let wanted = (there(run) - done).min(CHUNK as u64) as usize;
                let from = run.start + done;
                let read = read_full(&self.file, from, &mut chunk[..wanted])?;
                for (at, page) in marked(&chunk[..read]) {
                    each(PagePlace(from + at as u64), page);
                }
                scanned.bytes += read as u64;
                progress(scanned.bytes, total);
                if read < wanted {
                    break;
                }
                done += read as u64;
            }
        }
        Ok(scanned)
    }

    pub(super) fn page(&self, place: PagePlace, to: &mut Page) -> io::Result<bool> {
        Ok(read_full(&self.file, place.0, to)? == to.len())
    }
}
