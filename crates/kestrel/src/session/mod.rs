//! A session: tables, buffers and attached programs under one name. Makes what a plan says, switches it on and off, takes it down.

mod attached;
mod change;
mod counts;
mod errors;
pub mod handlers;
mod hooks;
mod identity;
mod listen;
mod metadata;
mod modules;
pub mod named;
mod objects;
mod outcome;
mod persistent;
mod resources;
pub mod state;

pub use attached::Session;
pub use change::{buffers, resize};
pub(crate) use change::{in_progress, lock, record_ids, transaction};
pub use counts::maps;
pub use counts::missed::UNCOUNTED;
pub use counts::uncounted::Uncounted;
pub(crate) use counts::{missed, uncounted};
pub(crate) use errors::kernel_error;
pub use errors::verifier_error;
pub use hooks::hotplug;
pub(crate) use hooks::{attach, hook_maps, hook_state, prepare, recompile, slot_program};
pub use kestrel_hook::hook::{
    CALLS, MAX_TABLE_SLOTS, control, dispatch, owner, process_filter, relay, second_chance,
};
pub use modules::ModuleGap;
pub use modules::status::{ModuleState, ModuleStatus};
pub use outcome::{Fallback, HitKind, Missed, Skipped};
pub(crate) use persistent::pins;
pub use persistent::{glance, pinned, start, status, store};
