//! A session: tables, buffers and attached programs under one name. Makes what a plan says, switches it on and off, takes it down.

mod attach;
mod attached;
pub mod buffers;
mod follow_modules;
pub mod handlers;
mod hook_maps;
mod hook_state;
mod identity;
mod load;
mod loading;
mod lock;
pub mod maps;
mod metadata;
mod missed;
mod module_status;
mod modules;
pub mod named;
mod objects;
mod outcome;
pub mod per_cpu;
pub mod pinned;
mod pins;
mod prepare;
mod recompile;
mod record_ids;
mod refusal;
pub mod rejection;
pub mod resize;
mod resources;
mod slot_program;
pub mod start;
pub mod state;
pub mod status;
pub mod store;
mod trackers;
mod transaction;

pub use attached::Session;
pub use kestrel_hook::hook::{
    CALLS, SLOTS, control, dispatch as gate, owner, process_filter as target, relay, second_chance,
};
pub use missed::UNCOUNTED;
pub use module_status::{ModuleState, ModuleStatus};
pub use modules::ModuleGap;
pub use outcome::{Fallback, Missed, Skipped};
