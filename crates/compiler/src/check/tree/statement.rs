//! Statements of the checked tree, and what they do: write records, change maps, steer the session.

use super::VariableId;
use super::expression::{Expr, MapPlace};
use crate::lang::ast::Span;
use kestrel_bpf::helper::Helper;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::layout::Layout;
use std::sync::Arc;

/// A statement of the checked tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Kind of the statement.
    pub kind: StatementKind,
    /// The bytes in the source.
    pub span: Span,
}

/// Kinds of statements.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum StatementKind {
    /// `variable = value` (already converted to the variable's type: a scalar; or bytes, which are copied).
    Set { variable: VariableId, value: Expr },
    /// `if (condition) { then } else { otherwise }`; the condition is a scalar.
    If {
        condition: Expr,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// Write one record.
    Record(Record),
    /// Change a map.
    Map(MapPlace, MapChange),
    /// Steer the session.
    Act(Action),
    /// Call a helper for what it does in the kernel; the operands are scalars. `verb` is how that is written.
    Perform {
        verb: &'static str,
        helper: Helper,
        operands: Vec<Expr>,
    },
    /// Several statements in the place of one.
    Block(Vec<Statement>),
    /// One of several handlers: [`StatementKind::Return`] leaves it, and it alone.
    Handler(Vec<Statement>),
    /// `while (condition) { body }`, and `step` after each time and before the condition is asked again.
    While {
        condition: Expr,
        body: Vec<Statement>,
        step: Vec<Statement>,
    },
    /// A loop that a helper makes.
    ForEach { over: LoopRange, body: Vec<Statement> },
    /// Leave the innermost loop.
    Break,
    /// Go on with the next time of the innermost loop.
    Continue,
    /// End the hook.
    Return,
}

/// Range of a loop that a helper drives.
#[derive(Clone, Debug, PartialEq)]
pub enum LoopRange {
    /// The elements of a map: their addresses are `ExprKind::ElementKey` and `ExprKind::ElementValue`.
    Map(Arc<MapType>),
    /// A number of times, a scalar; the index of the current one is `ExprKind::ElementKey`.
    Times(Expr),
    /// Nothing: the body itself leaves it. The kernel ends it after 2^23 times, which is counted as a failure.
    Endless,
}

impl LoopRange {
    /// Greatest index of an iteration: the kernel repeats at most 2^23 times (`BPF_MAX_LOOPS`).
    pub(crate) const MAX_INDEX: i64 = (1 << 23) - 1;
}

/// A change of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum MapChange {
    /// `@x[keys] = value`: a scalar, or a text as in a key.
    Set(Expr),
    /// `@x[keys] += value`, at once for all CPUs.
    Add(Expr),
    /// The value, if the map's aggregation takes one, is counted in.
    Aggregate(Option<Expr>),
    /// `delete(@x[keys])`.
    Delete,
    /// `clear(@x)`: all keys go. There are no keys to say which.
    Clear {
        /// Whether keys are kept, with the value zero, which is up to the reader.
        zeroed: bool,
    },
}

/// A record to write: values for the fields of a layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where each value goes.
    pub layout: Layout,
    /// One value per field of `layout.fields()`, in that (reading) order:
    ///
    /// | field type | value |
    /// |---|---|
    /// | integer, bool, pointer, enumeration, flags | a scalar, of which the low `size` bytes are stored |
    /// | text of `size` bytes | `ExprKind::ConstantBytes` or `ExprKind::Bytes` of that size, or `ExprKind::Comm` (16) |
    /// | array | `ExprKind::Bytes` of the array's size, or `ExprKind::Elements`, one each |
    /// | string | `ExprKind::ReadString` with the same `max` |
    /// | bytes | `ExprKind::ReadMemory` with the same `max` |
    /// | stack | `ExprKind::Stack` with the same `max` |
    /// | copy of a stack | `ExprKind::StackCopy`; the field's `max` counts |
    pub values: Vec<Expr>,
    /// Where it goes.
    pub to: Destination,
    /// The action that its reader performs, if the handler asks for one.
    pub asks: Option<kestrel_trace::action::Action>,
}

/// Destination of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// The buffer that this CPU uses now.
    #[default]
    Current,
    /// The buffer of this name.
    Buffer(String),
    /// The buffer of what is asked of user space.
    Messages,
}

/// An action of a handler on its session; names are those of the table file, known to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `use_table("t")`: another table is active from the next event of every CPU on.
    UseTable(String),
    /// `use_buffer("b")`: records of this CPU that name no buffer go there from now on.
    UseBuffer(String),
    /// `freeze("b")`: it keeps what it has and takes nothing more.
    Freeze(String),
    /// `thaw("b")`.
    Thaw(String),
    /// `reset("b")`: what it holds is forgotten.
    Reset(String),
    /// All events are masked from now on: the session ends.
    Leave,
    /// `handler "path.o"`: a program of a compiled object takes over, and does not come back.
    Call {
        /// As written; planning replaces it with the path of the object.
        object: String,
        /// The program; empty until planning has chosen it.
        program: String,
    },
}
