//! The one error type of this crate; faults of interpreted programs are values of their own in `interp`.

/// An error while making or reading BPF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// A jump or call names a label that was never bound.
    #[error("assembling BPF: the label used by instruction {insn} was never bound")]
    UnboundLabel { insn: usize },
    /// A label was bound a second time.
    #[error("assembling BPF: a label was bound at instruction {first} and again at {second}")]
    LabelBoundTwice { first: usize, second: usize },
    /// A label of another assembler.
    #[error("assembling BPF: instruction {insn} uses a label of another assembler")]
    ForeignLabel { insn: usize },
    /// A jump too far for the 16-bit offset.
    #[error(
        "assembling BPF: the jump at instruction {insn} spans {distance} instructions, more than a 16-bit offset holds"
    )]
    JumpTooFar { insn: usize, distance: i64 },
    /// A memory offset outside -32768..=32767.
    #[error(
        "assembling BPF: offset {offset} of the memory access at instruction {insn} does not fit 16 bits"
    )]
    OffsetTooLarge { insn: usize, offset: i64 },
    /// An operation that the instruction table does not have in this form.
    #[error("assembling BPF: there is no instruction for {what} (instruction {insn})")]
    NoInstruction { insn: usize, what: String },
    /// A reference to an instruction that the program does not have.
    #[error("joining programs: instruction {insn} is not part of the program")]
    OutsideOfProgram { insn: usize },
    /// Bytes that are not BTF.
    #[error("reading BTF: {what} (byte {offset})")]
    Btf { what: &'static str, offset: usize },
    /// Bytes that are not a BPF object, or one that contradicts itself.
    #[error("reading the BPF object: {0}")]
    Object(String),
    /// A line that is not of the text form.
    #[error("reading BPF text, line {line}: {what}")]
    Text { line: usize, what: String },
}
