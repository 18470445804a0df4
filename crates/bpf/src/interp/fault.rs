//! Faults of interpreted programs, in the words of the verifier and the kernel.

/// A fault of an interpreted program: its place and its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {insn} `{text}`: {reason}")]
pub struct Fault {
    /// Index of the instruction.
    pub insn: usize,
    /// The instruction as text.
    pub text: String,
    /// The reason.
    pub reason: Reason,
}

/// Reason why the interpreter stopped a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum Reason {
    #[error("r{register} was never written (or was lost in a call)")]
    UninitialisedRegister { register: u8 },
    #[error(
        "reads {size} bytes at {address:#x}, of which the byte at stack offset {offset} was never written"
    )]
    UninitialisedStack { address: u64, size: u64, offset: i64 },
    #[error("accesses {size} bytes at {address:#x}: a null pointer")]
    NullPointer { address: u64, size: u64 },
    #[error("accesses {size} bytes at offset {offset} of {region}, which has {length}")]
    OutOfBounds {
        region: &'static str,
        offset: i64,
        size: u64,
        length: u64,
    },
    #[error("accesses {size} bytes at {address:#x}, where nothing is")]
    BadAddress { address: u64, size: u64 },
    #[error("{what} {region} at {address:#x} directly")]
    Forbidden {
        what: &'static str,
        region: &'static str,
        address: u64,
    },
    #[error("accesses {size} bytes at stack offset {offset}, which is not aligned")]
    MisalignedStack { offset: i64, size: u64 },
    #[error("an atomic access of {size} bytes at {address:#x} is not aligned")]
    Misaligned { address: u64, size: u64 },
    #[error("this is not an instruction")]
    NotAnInstruction,
    #[error("execution leaves the program")]
    LeftProgram,
    #[error("writes r10, the frame pointer")]
    WroteFramePointer,
    #[error("helper {number} ({name}) has no implementation here")]
    UnknownHelper { number: u32, name: &'static str },
    #[error("kernel function {name:?} has no implementation here")]
    UnknownKfunc { name: String },
    #[error("{value:#x} is not a map, or not one that this helper takes")]
    NotAMap { value: u64 },
    #[error("there is no map {number}")]
    NoSuchMap { number: u32 },
    #[error("no end after {limit} instructions")]
    TooManySteps { limit: u64 },
    #[error("more than 8 frames of calls")]
    TooDeep,
    #[error("exits, or calls another program, with preemption switched off {depth} times")]
    PreemptionOff { depth: u32 },
    #[error("enables preemption that is not disabled")]
    PreemptionOn,
    #[error("exits, or calls another program, with interrupts switched off")]
    InterruptsOff,
    #[error("restores interrupts that it did not save, or in another order")]
    InterruptsOn,
    #[error("{0}")]
    Other(String),
}
