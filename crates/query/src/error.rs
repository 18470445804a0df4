//! The error type of this crate: what the records of a trace cannot answer.

use kestrel_compiler::lang::diag::Diagnostic;

/// An error in a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An expression is none, or means nothing at any event of the trace.
    #[error("{}", .found.first().map_or("the expression is wrong", |first| first.message.as_str()))]
    Expression {
        /// The expression as text.
        text: String,
        /// Diagnostics; at least one is an error.
        found: Vec<Diagnostic>,
    },
    /// A pattern fits no event of the trace.
    #[error("no event of this trace is called `{pattern}`")]
    NoEvent {
        /// The pattern as text.
        pattern: String,
        /// Names of its events.
        events: Vec<String>,
        /// A question about a name that is near.
        near: Option<String>,
    },
    /// A time is none.
    #[error("`{text}` is no time: {why}")]
    Time {
        /// The text that cannot be understood.
        text: String,
        /// Why it cannot be understood.
        why: String,
    },
    /// A pair of events is none.
    #[error("`{text}` is no pair of events: {why}")]
    Pair {
        /// The text that cannot be understood.
        text: String,
        /// Why it cannot be understood.
        why: String,
    },
    /// There is no such column to sort by.
    #[error("there is no column `{name}` to sort by")]
    Column {
        /// The name that was asked for.
        name: String,
        /// The columns there are.
        columns: Vec<String>,
    },
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
