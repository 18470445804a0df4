//! The control page: one small mapped array per session that hooks read first; what stands where in it.
//!
//! ```text
//! 0   active u32       number of the active table; 0: every hook returns at once
//! 8   start u64        ns of CLOCK_MONOTONIC when the session was made
//! 16  uuid [u8;16]     the session's trace
//! ```

use crate::error::Result;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_trace::info::Uuid;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Name by which programs refer to the control page.
pub const MAP: &str = "control";
const PAGE: u32 = 4096;
const ACTIVE: u32 = 0;
const START: u32 = 8;
const UUID: u32 = 16;

/// A session's control page.
#[derive(Debug)]
pub struct Control {
    map: Map,
    mapping: Mapping,
}

impl Control {
    /// Makes the page; no table is active.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(uuid: Uuid, now: u64) -> Result<Self> {
        let spec = MapSpec::new(MapKind::ARRAY, "kestrel_control", 4, PAGE, 1).with_flags(sys::MAP_MMAPABLE);
        let map = Map::create(&spec)?;
        let mapping = Mapping::new(map.as_fd(), 0, PAGE as usize, Access::ReadWrite)?;
        mapping.copy_in(START as usize, &now.to_le_bytes())?;
        mapping.copy_in(UUID as usize, &uuid.0)?;
        Ok(Self { map, mapping })
    }

    /// Its map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Makes a table active on all CPUs from their next event on: one store. 0 masks everything.
    pub fn activate(&self, table: u32) {
        if let Some(word) = self.mapping.atomic_u32(ACTIVE as usize) {
            word.store(table, Ordering::SeqCst);
        }
    }
}

/// The first thing a hook does: leave unless a table is active.
pub fn emit_active(b: &mut Builder, refused: BlockId) {
    let map = b.external(MAP);
    let word = b.map_value(map, ACTIVE);
    let active = b.load(Width::B4, word, 0);
    b.branch_if(Condition::Equal, active, 0, refused);
}

/// When the session was made, for `elapsed`.
pub fn emit_start(b: &mut Builder) -> Vreg {
    let map = b.external(MAP);
    let word = b.map_value(map, START);
    b.load(Width::B8, word, 0)
}
