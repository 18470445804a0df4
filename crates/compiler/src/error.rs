//! The one error type of this crate: why a checked program did not become BPF.

use kestrel_bpf::code::SourceRange as Span;

/// An error while generating code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// More stack than BPF has, even with a scratch map.
    #[error(
        "generating BPF: the program needs {needed} bytes of stack, BPF has {limit}, and the rest does not fit a scratch map"
    )]
    FrameTooLarge { needed: u32, limit: u32, span: Span },
    /// The instructions could not be assembled.
    #[error(transparent)]
    Assemble(kestrel_bpf::Error),
    /// The sink has no room for such a record.
    #[error("recording: {reason}")]
    Sink {
        reason: crate::sink::SinkError,
        span: Span,
    },
    /// Fields of variable length that may exceed what can be copied into a record.
    #[error(
        "recording: the record's strings and stacks may take {needed} bytes, the buffer has room for {limit} at most"
    )]
    TailTooLarge { needed: u32, limit: u32, span: Span },
    /// A tree that the checker should have refused.
    #[error("generating BPF: {what}")]
    Malformed { what: &'static str, span: Span },
}

impl Error {
    /// The bytes of the source that it is about.
    pub fn span(&self) -> Span {
        match self {
            Self::FrameTooLarge { span, .. }
            | Self::Sink { span, .. }
            | Self::TailTooLarge { span, .. }
            | Self::Malformed { span, .. } => *span,
            Self::Assemble(_) => Span::default(),
        }
    }
}
