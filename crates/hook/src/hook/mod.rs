//! Everything that is emitted as BPF around a handler, and the bytes that it reads: nothing here loads or attaches anything.

pub mod control;
pub mod dispatch;
pub mod named;
pub mod owner;
pub mod process_filter;
pub mod relay;
pub mod second_chance;
pub mod thread_names;

/// Handlers of tables that were loaded later that a hook has room for.
pub const MAX_TABLE_SLOTS: u32 = 512;
/// Programs of compiled objects that a hook's handlers have room for, behind the slots.
pub const CALLS: u32 = 64;

/// A program of a compiled object that a handler calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The path of the object's file, from the root.
    pub object: String,
    /// The program's name.
    pub program: String,
    /// The place in the hook's program array.
    pub entry: u32,
}
