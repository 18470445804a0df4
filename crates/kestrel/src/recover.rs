//! Sessions of the running kernel whose pins are gone but whose programs still run: their memory as an image, to be searched like a dead kernel's.

use kestrel_catalog::Result;
use kestrel_kernel::bpf::{Map, MapKind, map_ids, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_trace::image::bytes::ReadAt;
use kestrel_trace::packet::PAGE;
use std::io;
use std::os::fd::AsFd;

/// Prefix of the names of our maps.
const PREFIX: &str = "kestrel_";

/// The memory of all maps of ours, one behind the other.
#[derive(Debug, Default)]
pub struct LiveMemory {
    /// With the offset behind each.
    maps: Vec<(u64, Mapping)>,
}

impl LiveMemory {
    /// Maps all ring buffers of Kestrel in this kernel, of any process. Maps that go away meanwhile are left out.
    ///
    /// # Errors
    /// The kernel's: `EPERM` without CAP_SYS_ADMIN.
    pub fn open() -> Result<Self> {
        let mut memory = Self::default();
        for id in map_ids()? {
            let Ok(map) = Map::from_id(id) else { continue };
            let info = map.info();
            let ours = info.name.starts_with(PREFIX) && info.kind == MapKind::ARRAY;
            if !ours || info.flags & sys::MAP_MMAPABLE == 0 {
                continue;
            }
            let bytes = map.element_size() * info.entries as usize;
            let bytes = bytes / PAGE as usize * PAGE as usize;
            if bytes > 0 {
                let mapping = Mapping::new(map.as_fd(), 0, bytes, Access::ReadOnly)?;
                let end = memory.end() + bytes as u64;
                memory.maps.push((end, mapping));
            }
        }
        Ok(memory)
    }

    fn end(&self) -> u64 {
        self.maps.last().map_or(0, |(end, _)| *end)
    }
}

impl ReadAt for LiveMemory {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        let index = self.maps.partition_point(|(end, _)| *end <= at);
        let Some((end, mapping)) = self.maps.get(index) else {
            return Ok(0);
        };
        let bytes = usize::try_from(end - at).unwrap_or(usize::MAX).min(to.len());
        let offset = mapping.len() - (end - at) as usize;
        mapping
            .copy_out(offset, &mut to[..bytes])
            .map_err(io::Error::other)?;
        Ok(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.end())
    }
}
