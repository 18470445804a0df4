//! The crate's error type.

use kestrel_bpf::helper::Helper;

/// Why a program cannot be run over a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Generated code that is none: a defect of the compiler's.
    #[error("the instruction {at} of the program cannot be run")]
    Malformed {
        /// Index of the instruction.
        at: usize,
    },
    /// Only a running kernel answers this.
    #[error("what the kernel's bpf_{} gives was not recorded", .0.name().unwrap_or("helper"))]
    NotRecorded(Helper),
    /// An access to memory that is not there: a defect of the compiler's.
    #[error("the program's instruction {at} reads or writes at {address:#x}, where nothing is")]
    Outside {
        /// Index of the instruction.
        at: usize,
        /// The address that was accessed.
        address: u64,
    },
    /// A program that does not end.
    #[error("a program did not end after {0} jumps back: a loop in it runs too long")]
    Endless(u64),
    /// A program that does not fit.
    #[error("{0}")]
    Compile(#[from] kestrel_compiler::Error),
}

/// Result of a replay.
pub type Result<T> = std::result::Result<T, Error>;
