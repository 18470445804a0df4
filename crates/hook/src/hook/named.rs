//! The code of a named probe's hook beside its handler: which probe it belongs to, and the count of its hits.

use kestrel_bpf::helper;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Width};

/// Slots of a hook: one for the programs that are in force, where they were made anew, and one for the next.
pub const PROBE_SLOTS: u32 = 2;
/// Name by which programs refer to the counts of hits.
pub const HITS: &str = "hits";

/// Identity of the named probe that a hook is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeIdentity {
    /// The place of its word in the control page, and of its hits.
    pub place: u32,
    /// The number, never used twice in a session.
    pub number: u32,
    /// Whether the hook's hits are the probe's, and not those of a companion.
    pub counted: bool,
}

/// Counts a hit on this CPU.
pub(crate) fn emit_hit(b: &mut Builder, own: ProbeIdentity, skip: BlockId) {
    let key = b.slot(4, 4);
    let key = b.slot_address(key, 0);
    b.store(Width::B4, key, 0, i64::from(own.place));
    let hits = b.external(HITS);
    let hits = b.map_pointer(hits);
    let found = b.helper(helper::MAP_LOOKUP_ELEM, &[hits.into(), key.into()]);
    b.branch_if(Condition::Equal, found, 0, skip);
    // Another event may interrupt this one on this CPU.
    b.atomic_add(Width::B8, found, 0, 1);
}
