//! Images of a machine's memory as pages, one by one, whatever the file's format; the pages are interpreted elsewhere.
//!
//! ```text
//! file ─► flattened? ─► ELF, raw: runs of bytes ──────┐
//!                       kdump: pages, compressed ─────┴─► those that begin with the magic number
//! ```
//!
//! Physical addresses do not matter: packets are known by their headers. A file of any bytes is read without a panic.

pub mod bytes;
mod compression;
pub mod elf;
pub mod flattened;
mod found;
pub mod kdump;
mod lzo;
pub mod runs;

pub use crate::error::Unreadable;
pub use found::{Each, PagePlace, Progress, Scanned};

use crate::ctf::packet::{Page, long};
use crate::packet::{PAGE, offset};
use bytes::{File, ReadAt, read_full};
use flattened::File as Layers;
use kdump::Kdump;
use runs::Runs;
use serde::Serialize;

/// Format of an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// ELF: /proc/vmcore, makedumpfile -E, QEMU's dump-guest-memory.
    Elf,
    /// kdump-compressed: makedumpfile, QEMU's kdump-zlib.
    Kdump,
    /// Memory as it is, from the first byte on.
    Raw,
    /// Memory of a kernel that runs.
    Live,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Elf => "an ELF core file",
            Self::Kdump => "a kdump-compressed file",
            Self::Raw => "raw memory",
            Self::Live => "memory of a running kernel",
        })
    }
}

/// An image of memory.
#[derive(Debug)]
pub struct Image<R> {
    format: Format,
    pages: Pages<Layers<R>>,
}

#[derive(Debug)]
enum Pages<R> {
    Runs(Runs<R>),
    Kdump(Kdump<R>),
}

impl Image<File> {
    /// Opens a file; its first bytes say what it is, and one that says nothing is taken for raw memory.
    pub fn open(path: &std::path::Path) -> Result<Self, Unreadable> {
        Self::new(File::open(path)?)
    }
}

impl<R: ReadAt> Image<R> {
    /// Finds out what kind of image these bytes are.
    pub fn new(bytes: R) -> Result<Self, Unreadable> {
        let bytes = Layers::new(bytes)?;
        let mut start = [0; 8];
        read_full(&bytes, 0, &mut start)?;
        let (format, pages) = if start.starts_with(elf::MAGIC) {
            let runs = elf::runs(&bytes)?;
            (Format::Elf, Pages::Runs(Runs::new(bytes, runs)))
        } else if start == *kdump::MAGIC {
            (Format::Kdump, Pages::Kdump(Kdump::new(bytes)?))
        } else {
            let whole = runs::Run {
                start: 0,
                bytes: bytes.size()?,
            };
            (Format::Raw, Pages::Runs(Runs::new(bytes, vec![whole])))
        };
        Ok(Self { format, pages })
    }

    /// Takes the bytes for memory as it is, whatever they begin with, and expects that they change while they are read: a live kernel's.
    pub fn live(bytes: R) -> Result<Self, Unreadable> {
        let bytes = Layers::plain(bytes);
        let whole = runs::Run {
            start: 0,
            bytes: bytes.size()?,
        };
        Ok(Self {
            format: Format::Live,
            pages: Pages::Runs(Runs::new(bytes, vec![whole])),
        })
    }

    /// Format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Shows `each` every page that begins with the magic number of packets.
    pub fn scan(&self, each: Each<'_>, progress: Progress<'_>) -> Result<Scanned, Unreadable> {
        match &self.pages {
            Pages::Runs(runs) => Ok(runs.scan(each, progress)?),
            Pages::Kdump(kdump) => Ok(kdump.scan(each, progress)?),
        }
    }

    /// The page in a place that [`Image::scan`] gave; false if it is not there any more.
    ///
    /// A page whose writers begin to use it again while it is copied says so in its header: that is looked at once more afterwards.
    pub fn page(&self, place: PagePlace, to: &mut Page) -> Result<bool, Unreadable> {
        let there = self.copy(place, to)?;
        if !there || self.format != Format::Live {
            return Ok(there);
        }
        let mut after: Page = [0; PAGE as usize];
        let still = self.copy(place, &mut after)?;
        let use_of = |page: &Page| (long(page, offset::SEQUENCE), long(page, offset::TIMESTAMP_BEGIN));
        Ok(still && use_of(&after) == use_of(to))
    }

    fn copy(&self, place: PagePlace, to: &mut Page) -> Result<bool, Unreadable> {
        match &self.pages {
            Pages::Runs(runs) => Ok(runs.page(place, to)?),
            Pages::Kdump(kdump) => Ok(kdump.page(place, to)?),
        }
    }
}
