//! The tables, buffers and hooks of a running session, as planning needs them.

use super::planned::BufferPlan;
use kestrel_catalog::attach::Mechanism;
use kestrel_compiler::check::globals::Globals;
use kestrel_hook::hook::process_filter::ProcessFilter;

/// A running session, as plain data.
#[derive(Clone, Debug)]
pub struct Existing {
    /// Names of its tables by their places (what `use_table` may say); a table that is loaded anew keeps its place, a new one comes last.
    pub tables: Vec<String>,
    /// Buffers by their numbers.
    pub buffers: Vec<BufferPlan>,
    /// Parameters (with the values they started with), maps, and whether there may be an agent.
    pub globals: Globals,
    /// The processes whose events are traced.
    pub target: ProcessFilter,
    /// The hooks; [`crate::plan::Slot::hook`] is a place among them.
    pub hooks: Vec<ExistingHook>,
    /// The first number of records that is free.
    pub next_number: u32,
}

/// A hook of a running session.
#[derive(Clone, Debug, PartialEq)]
pub struct ExistingHook {
    /// The hook's number.
    pub number: u32,
    /// Whether another hook on its event looks at the active word for it.
    pub is_relay: bool,
    /// The event kind's canonical name.
    pub kind: String,
    /// Names of its events, in the order of their numbers in the hook.
    pub instances: Vec<String>,
    /// How the hook is attached.
    pub mechanism: Mechanism,
}
