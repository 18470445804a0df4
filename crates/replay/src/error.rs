//! The crate's error type.

use kestrel_bpf::helper::Helper;

/// Why a program cannot be run over a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An instruction that cannot be decoded: a defect of the compiler.
    #[error("the instruction {at} of the program cannot be run")]
    Malformed {
        /// Index of the instruction.
        at: usize,
    },
    /// A helper that only a running kernel answers.
    #[error("what the kernel's bpf_{} gives was not recorded", .0.name().unwrap_or("helper"))]
    NotRecorded(Helper),
    /// An access to memory that is not there: a defect of the compiler.
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
    /// The compiler refused the handler.
    #[error("{0}")]
    Compile(#[from] kestrel_compiler::Error),
}

/// Result of a replay.
pub type Result<T> = std::result::Result<T, Error>;
