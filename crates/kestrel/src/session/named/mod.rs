//! Named probes of a session that stays: rows of a table that is in force beside the active one, added and taken out one at a time.
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
//! ([`renew`]), and each probe's word, stored once, takes its events from the old ones to the new.

mod change;
pub mod kernel_line;
mod renew;
mod site;
mod start;
mod status;
mod text;

pub use super::state::Instruction;
pub use change::{Added, Request};
pub use start::check;
pub use status::{Flags, Probe, Site};

use kestrel_bpf::helper;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Width};

/// The session of named probes for which no other is named.
pub const SESSION: &str = "probes";
/// The table that named probes stand in.
pub const TABLE: &str = "probes";
/// Slots of a hook: one for the programs that are in force, where they were made anew, and one for the next.
pub const SLOTS: u32 = 2;
/// Name by which programs refer to the counts of hits.
pub const HITS: &str = "hits";

/// Which named probe a hook is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The place of its word in the control page, and of its hits.
    pub place: u32,
    /// Its number, never used twice in a session.
    pub number: u32,
    /// Whether the hook's hits are the probe's, and not those of a companion.
    pub counted: bool,
}

/// Counts a hit on this CPU.
pub(super) fn emit_hit(b: &mut Builder, own: Own, refused: BlockId) {
    let key = b.slot(4, 4);
    let key = b.slot_address(key, 0);
    b.store(Width::B4, key, 0, i64::from(own.place));
    let hits = b.external(HITS);
    let hits = b.map_pointer(hits);
    let found = b.helper(helper::MAP_LOOKUP_ELEM, &[hits.into(), key.into()]);
    b.branch_if(Condition::Equal, found, 0, refused);
    // Another event may interrupt this one on this CPU.
    b.atomic_add(Width::B8, found, 0, 1);
}
