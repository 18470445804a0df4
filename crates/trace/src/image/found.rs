//! Results of scanning a memory image: pages that were found, their places, and what could not be read.

use crate::ctf::packet::Page;
use crate::packet::{MAGIC, PAGE};
use serde::Serialize;

/// Place of a page in its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagePlace(pub(crate) u64);

/// Parts of an image that could not be scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scanned {
    /// Number of bytes that were scanned; pages that the image marks as all alike (zeros) count once.
    pub bytes: u64,
    /// Number of pages that the image should have and that cannot be read.
    pub unreadable: u64,
    /// Why the first of them cannot be read.
    pub note: Option<String>,
}

impl Scanned {
    pub(super) fn missed(&mut self, pages: u64, why: impl FnOnce() -> String) {
        self.unreadable += pages;
        if pages > 0 && self.note.is_none() {
            self.note = Some(why());
        }
    }
}

/// Called with the progress: how many bytes of how many were scanned.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Called with each page that is found, and its place.
pub type Each<'a> = &'a mut dyn FnMut(PagePlace, &Page);

/// The pages among these bytes that begin with a packet's magic number, each with its offset.
pub(super) fn marked(bytes: &[u8]) -> impl Iterator<Item = (usize, &Page)> {
    let (pages, _) = bytes.as_chunks::<{ PAGE as usize }>();
    let magic = |page: &Page| page.starts_with(&MAGIC.to_le_bytes());
    let offsets = (0..).step_by(PAGE as usize);
    offsets.zip(pages).filter(move |(_, page)| magic(page))
}
