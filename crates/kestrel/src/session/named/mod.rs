//! Named probes of a persistent session: rows of a table that is in force beside the active one, added and taken out one at a time.
//!
//! Each has hooks of its own, so that adding one touches no other, and several may sit on one event. Its word in the control page holds its
//! number while it is enabled: a hook whose number is not there returns at once, which also keeps still what the kernel has not detached yet of a
//! probe whose place has a new owner. One more word keeps all of them still (the global switch) and leaves their own words as they are.
//!
//! ```text
//!   hook ─► own number in own word? ─► silent = 0? ─┬─► no slot in it ─────────────► hits + 1 ─► predicate ─► handler
//!                                                   └─► slot ─► program there ─────► hits + 1 ─► predicate ─► handler made anew
//! ```
//!
//! A buffer that is resized has another ring, which programs refer to in their code: those of all probes are made anew into their hooks' free slots
//! (`recompile`), and each probe's word, stored once, takes its events from the old ones to the new.

mod change;
pub mod kernel_line;
mod recompile;
mod request;
mod site;
mod start;
mod status;
mod text;

pub use super::state::Instruction;
pub use change::Added;
pub use kestrel_hook::hook::named::{HITS, PROBE_SLOTS, ProbeIdentity};
pub use request::ProbeRequest;
pub use start::check;
pub use status::{Flags, Probe, Site};

/// The session of named probes for which no other is named.
pub const SESSION: &str = "probes";
/// The table that named probes stand in.
pub const TABLE: &str = "probes";
