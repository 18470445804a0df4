//! Buffers: named sets of per-CPU rings in kernel memory; their shape, their writer and their reader, one file each.

pub mod emit;
pub mod layout;
pub mod ring;
