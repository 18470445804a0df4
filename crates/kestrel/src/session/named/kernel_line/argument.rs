//! An argument of a line as values: what is fetched, and how it is kept.

/// Words of a kernel stack (`THREAD_SIZE`).
pub(super) const STACK_WORDS: u64 = 2048;

/// A fetch: one value of a probe line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fetch {
    /// A saved register.
    Register(&'static str),
    /// The stack pointer.
    StackPointer,
    /// A word of the stack.
    Stack(u64),
    /// The return value of the function.
    ReturnValue,
    /// A parameter of the function by its place; at its return, that of the same call's entry.
    Argument(u32),
    /// The name of the thread.
    Comm,
    /// A number.
    Immediate(u64),
    /// A text.
    Text(String),
    /// Memory at an address.
    Memory {
        base: Box<Fetch>,
        offset: i64,
        user: bool,
    },
}

/// Storage type of a fetched value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Integer {
        bits: u32,
        signed: bool,
    },
    /// Bits of a container, from one on; with zeros behind them.
    Bits {
        container: u32,
        shift: u32,
        width: u32,
        zeros: u32,
    },
    Symbol,
    Text {
        user: bool,
    },
}

/// An argument as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) fetch: Fetch,
    pub(super) store: Store,
    pub(super) elements: Option<u32>,
}
