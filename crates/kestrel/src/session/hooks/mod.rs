//! Programs of hooks: compiled and loaded, attached to events and to CPUs, described in the state, compiled again.

pub(crate) mod attach;
pub(crate) mod hook_maps;
pub(crate) mod hook_state;
pub mod hotplug;
pub(crate) mod prepare;
pub(crate) mod recompile;
pub(crate) mod slot_program;
pub(crate) mod trackers;
