//! Buffers: named sets of per-CPU rings in kernel memory; their shape, their writer, their reader and their copier, one file each.

pub mod emit;
pub mod layout;
pub mod memory;
pub mod ring;
pub mod snapshot;

use crate::error::Result;
use emit::map_name;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
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
