//! The checked tree: every name resolved, every walk a chain of loads, every value typed; small, because the back end
//! lowers exactly these nodes. No syntax, no BTF look-ups, no instructions.
//!
//! **Values.** A *scalar* expression ([`Type::is_scalar`]) is one 64-bit register, zero- or sign-extended from its type's
//! size. Any other expression denotes bytes in memory and stands only where bytes are wanted: as a field of a
//! [`Record`] and as an operand of [`ExprKind::StringEqual`].
//!
//! | room | what it holds |
//! |---|---|
//! | `statement` | statements, and what they do to records, maps and the session |
//! | `expression` | expressions, and how memory is read and helpers are asked |
//! | `ty` | the types of expressions |

mod expression;
mod statement;
mod ty;

pub use expression::{Access, BinaryOp, CompareOp, Expr, ExprKind, Intrinsic, MapPlace, UnaryOp};
pub use statement::{Action, Destination, LoopRange, MapChange, Record, Statement, StatementKind};
pub use ty::{Pointee, PointeeId, Pointer, Show, TupleMember, TupleType, Type};

/// A checked probe, which one event's hook runs: evaluate the predicate, and where it is not zero run the body.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedProbe {
    /// A scalar; absent means true.
    pub predicate: Option<Expr>,
    /// Whether the first of what the predicate joins says which event it is; only what comes then is the user's.
    pub guarded: bool,
    /// In source order.
    pub body: Vec<Statement>,
    /// With [`crate::context::EventNumber::Selected`]: the index into the map of numbers, a scalar.
    pub selector: Option<Expr>,
    /// Scratch variables by [`VariableId`]; each holds one 64-bit register, zero at the start.
    pub variables: Vec<Variable>,
    /// The relation to an event that came before; checked before the predicate.
    pub pair: Option<CheckedPair>,
}

/// Pairing of a handler with the event that came first, and the code to run there.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPair {
    /// Holds something where the first event came; the handler runs only then.
    pub mark: MapPlace,
    /// Further kept values. When the handler ends, however it ends, all of them are deleted.
    pub kept: Vec<MapPlace>,
    /// The body of the handler at the first event.
    pub first: Vec<Statement>,
    /// The body of the handler at the event after which the second will not come.
    pub aborted: Vec<Statement>,
}

impl CheckedProbe {
    /// The records it may write, in source order: each is a kind of its own, numbered from the event's number on.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.statements().filter_map(|statement| match &statement.kind {
            StatementKind::Record(record) => Some(record),
            _ => None,
        })
    }
}

/// A scratch variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// As written, without the dollar; two variables of different blocks may share it.
    pub name: String,
    /// The variable's type.
    pub ty: Type,
    /// Bytes of a value that is not a scalar.
    pub size: u32,
}

/// A scratch variable's place in [`CheckedProbe::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);
