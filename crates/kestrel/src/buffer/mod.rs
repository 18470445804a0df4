//! Buffers: named sets of per-CPU rings in kernel memory; their shape, their writer, their reader, their lender and their copier, one file each.

pub mod emit;
pub mod layout;
pub mod lend;
pub mod memory;
pub mod ring;
pub mod snapshot;
pub mod status;

use crate::error::{Error, Result};
use emit::map_name;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::{Host, procfs};
use layout::Geometry;
use ring::{Ring, RingSpec};
use std::os::fd::AsFd;

/// A buffer in kernel memory: its map, and its rings as the mapped map shows them.
#[derive(Debug)]
pub struct Buffer {
    name: String,
    map: Map,
    ring: Ring<Mapping>,
}

/// Whether there is memory for buffers of these shapes on this machine.
///
/// # Errors
/// [`Error::Unsupported`] with what is needed and what is there.
pub fn check_memory(shapes: impl IntoIterator<Item = Geometry>, cpus: &[u32], host: &Host) -> Result<()> {
    let regions = shapes.into_iter().map(|shape| u64::from(shape.region()));
    let needed = regions.sum::<u64>() * u64::from(ring::entries(cpus));
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    match procfs::available_memory(host) {
        Ok(available) if needed > available => Err(Error::Unsupported {
            what: format!(
                "buffers that take {} MiB on {} CPUs",
                mebibytes(needed),
                cpus.len()
            ),
            why: format!("{} MiB of memory are available", mebibytes(available)),
        }),
        // A kernel that does not say how much there is (a miniature /proc) answers when the buffers are made.
        _ => Ok(()),
    }
}

impl Buffer {
    /// Makes a buffer: the map, its mapping, and in every page what never changes.
    ///
    /// # Errors
    /// The kernel's, when there is no memory or no privilege.
    pub fn create(name: &str, spec: &RingSpec<'_>) -> Result<Self> {
        let region = spec.geometry.region();
        let entries = spec.entries();
        let map_name = format!("kestrel_{name}");
        let map = Map::create(
            &MapSpec::new(MapKind::ARRAY, &map_name, 4, region, entries).with_flags(sys::MAP_MMAPABLE),
        )?;
        let len = region as usize * entries as usize;
        let mapping = Mapping::new(map.as_fd(), 0, len, Access::ReadWrite)?;
        Ok(Self {
            name: name.to_owned(),
            map,
            ring: Ring::format(mapping, spec)?,
        })
    }

    /// A buffer that is there already, as [`Buffer::create`] made it, with everything in it. A stream buffer goes on to be read from where its
    /// last reader stopped, an overwriting one from its oldest page.
    ///
    /// `cpus` and `geometry` are those that it was made with.
    ///
    /// # Errors
    /// The kernel's, or when the map is smaller than that.
    pub fn open(name: &str, map: Map, geometry: Geometry, cpus: &[u32]) -> Result<Self> {
        let entries = ring::entries(cpus);
        let len = geometry.region() as usize * entries as usize;
        let mapping = Mapping::new(map.as_fd(), 0, len, Access::ReadWrite)?;
        Ok(Self {
            name: name.to_owned(),
            map,
            ring: Ring::open(mapping, geometry, cpus),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by which programs refer to its map.
    pub fn map_name(&self) -> String {
        map_name(&self.name)
    }

    /// Its map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Its rings.
    pub fn ring(&self) -> &Ring<Mapping> {
        &self.ring
    }

    /// Its rings, to be read.
    pub fn ring_mut(&mut self) -> &mut Ring<Mapping> {
        &mut self.ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_before_it_is_made() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::new(root.path());
        let shape = |bytes| [Geometry::new(layout::Mode::Overwrite, bytes, 8)];
        assert!(
            check_memory(shape(layout::MAX_BYTES), &[0, 1], &host).is_ok(),
            "nobody knows"
        );
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let meminfo = "MemTotal: 999999999 kB\nMemAvailableX: 1 kB\nMemAvailable:  409600 kB\n";
        std::fs::write(root.path().join("proc/meminfo"), meminfo).unwrap();
        assert!(check_memory(shape(64 << 20), &[0, 1, 2, 3], &host).is_ok());
        let error = check_memory(shape(layout::MAX_BYTES), &[0, 1], &host).unwrap_err();
        assert_eq!(
            error.to_string(),
            "buffers that take 513 MiB on 2 CPUs: 400 MiB of memory are available"
        );
    }
}
