//! The session's own description in kernel memory: metadata pages of the same kind as the ring's, so that a memory image explains itself. It is there twice, apart:
//! where an image is damaged, or a page was left out of it, the other copy explains the rest.

use super::pins::{self, Directory};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, Program, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_trace::ctf::packet::Page;
use kestrel_trace::ctf::{metadata, pages};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::PAGE;
use std::os::fd::AsFd;

/// Memory that is taken while the second copy is made: the kernel gives pages that were freed together to the next caller.
const BETWEEN: u32 = 4 << 20;

/// A description, twice.
#[derive(Debug)]
pub(super) struct Description {
    first: Map,
    second: Map,
}

impl Description {
    /// Writes a trace's metadata into array maps, one page per element, page-aligned. Of several descriptions the one of the highest
    /// generation is the newest.
    ///
    /// # Errors
    /// The kernel's, or when the events cannot be described.
    pub(super) fn create(info: &TraceInfo, generation: u64) -> Result<Self> {
        let text = metadata::text(info)?;
        let pages = pages::metadata_pages(&text, info.uuid, generation);
        let first = copy(&pages)?;
        let between = MapSpec::new(MapKind::ARRAY, "kestrel_between", 4, BETWEEN, 1);
        // Where memory is short they lie nearer to each other.
        let between = Map::create(&between.with_flags(sys::MAP_MMAPABLE));
        let second = copy(&pages)?;
        drop(between);
        Ok(Self { first, second })
    }

    /// Lets a description live as long as any of these programs does: where only one of them is left and the session's pins are lost, its records can
    /// still be read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn bind<'p>(&self, programs: impl IntoIterator<Item = &'p Program>) -> Result<()> {
        for program in programs {
            program.bind_map(&self.first)?;
            program.bind_map(&self.second)?;
        }
        Ok(())
    }

    /// Pins it in the place of the one before, if there is one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn pin(&self, to: &Directory) -> Result<()> {
        to.replace(self.second.as_fd(), pins::META_COPY)?;
        to.replace(self.first.as_fd(), pins::META)
    }
}

fn copy(pages: &[Page]) -> Result<Map> {
    let spec = MapSpec::new(MapKind::ARRAY, "kestrel_meta", 4, PAGE, pages.len() as u32)
        .with_flags(sys::MAP_MMAPABLE);
    let map = Map::create(&spec)?;
    let mapping = Mapping::new(map.as_fd(), 0, pages.len() * PAGE as usize, Access::ReadWrite)?;
    for (index, page) in pages.iter().enumerate() {
        mapping.copy_in(index * PAGE as usize, page)?;
    }
    Ok(map)
}

/// Reads one copy of a description.
///
/// # Errors
/// The kernel's, or when the map holds something else.
pub(super) fn read(map: &Map, uuid: kestrel_trace::info::Uuid) -> Result<TraceInfo> {
    let len = map.info().entries as usize * PAGE as usize;
    let mapping = Mapping::new(map.as_fd(), 0, len, Access::ReadOnly)?;
    let bytes = mapping.to_vec(0..len)?;
    let text = pages::metadata_text(bytes.chunks(PAGE as usize), uuid).map_err(|why| Error::State {
        session: uuid.to_string(),
        why: why.to_string(),
    })?;
    Ok(metadata::parse(&text)?)
}
