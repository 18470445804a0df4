//! Memory that the expressions of a handler read, other than the program's own.

use kestrel_compiler::check::tree::{Access, CheckedProbe, Expr, ExprKind};
use kestrel_compiler::lang::library::THREAD_NAMES;
use kestrel_trace::layout::Space;

/// Whether a handler reads memory that is not its own.
pub fn reads_memory(handler: &CheckedProbe) -> bool {
    handler.expressions().any(|expr| read(expr).is_some())
}

/// Memory that an expression reads, other than the program's own.
pub(crate) struct Read<'e> {
    pub(crate) address: &'e Expr,
    /// Whose it is, where the address does not decide.
    pub(crate) space: Option<Space>,
    pub(crate) what: ReadKind,
}

/// The value that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// A text: `str(…)`.
    Text,
    /// Bytes: `buf(…)`.
    Bytes,
    /// A member of a structure, or what a pointer points to.
    Member,
}

pub(crate) fn read(expr: &Expr) -> Option<Read<'_>> {
    let (address, space, what) = match &expr.kind {
        ExprKind::Load { address, access, .. } | ExprKind::Bytes { address, access, .. } => match access {
            Access::Context => return None,
            Access::User => (address, Some(Space::User), ReadKind::Member),
            Access::Kernel | Access::Direct => (address, Some(Space::Kernel), ReadKind::Member),
        },
        ExprKind::ReadString { address, space, .. } => (address, *space, ReadKind::Text),
        ExprKind::ReadMemory { address, space, .. } => (address, *space, ReadKind::Bytes),
        _ => return None,
    };
    (!is_own(address)).then_some(Read { address, space, what })
}

/// Whether an address is of memory that the program itself has: its event, its variables, its maps, names of threads.
pub(crate) fn is_own(address: &Expr) -> bool {
    match &address.kind {
        ExprKind::Constant(address) => *address == THREAD_NAMES,
        ExprKind::ContextPointer
        | ExprKind::ElementKey
        | ExprKind::ElementValue
        | ExprKind::FrameWords(_)
        | ExprKind::VariableAddress(_)
        | ExprKind::MapAddress(_)
        | ExprKind::MapCopy(..) => true,
        ExprKind::Binary { left, right, .. } => is_own(left) || is_own(right),
        ExprKind::Sequence { value, .. } => is_own(value),
        _ => false,
    }
}
