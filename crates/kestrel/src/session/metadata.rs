//! The session's own description in kernel memory: metadata pages of the same kind as the ring's, so that a memory image explains itself.

use crate::error::{Error, Result};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, Program, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_trace::ctf::{metadata, pages};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::PAGE;
use std::os::fd::AsFd;

/// Writes a trace's metadata into an array map, one page per element, page-aligned. Of several descriptions the one of the highest
/// generation is the newest.
///
/// # Errors
/// The kernel's, or when the events cannot be described.
pub(super) fn create(info: &TraceInfo, generation: u64) -> Result<Map> {
    let text = metadata::text(info)?;
    let pages = pages::metadata_pages(&text, info.uuid, generation);
    let spec = MapSpec::new(MapKind::ARRAY, "kestrel_meta", 4, PAGE, pages.len() as u32)
        .with_flags(sys::MAP_MMAPABLE);
    let map = Map::create(&spec)?;
    let mapping = Mapping::new(map.as_fd(), 0, pages.len() * PAGE as usize, Access::ReadWrite)?;
    for (index, page) in pages.iter().enumerate() {
        mapping.copy_in(index * PAGE as usize, page)?;
    }
    Ok(map)
}

/// Lets a description live as long as any of these programs does: whoever holds only one of them, the session's pins lost, has what says how to
/// read its records.
///
/// # Errors
/// The kernel's.
pub(super) fn bind<'p>(description: &Map, programs: impl IntoIterator<Item = &'p Program>) -> Result<()> {
    let bound = programs
        .into_iter()
        .try_for_each(|program| program.bind_map(description));
    Ok(bound?)
}

/// Reads what [`create`] wrote.
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
