//! Expressions of the checked tree: constants, loads, operators, and values that helpers and maps give.

use super::VariableId;
use super::statement::Statement;
use super::ty::Type;
use crate::context::PreemptCount;
use crate::lang::ast::Span;
use crate::lang::glob::Glob;
use kestrel_bpf::helper::{self, Helper};
use kestrel_trace::aggregate::MapType;
use kestrel_trace::aggregate::aggregation::AsNumber;
use kestrel_trace::layout::{EventName, Space};
use std::fmt;
use std::sync::Arc;

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The computation.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: Type,
    /// Place of the expression in the source (for a field rule, that of the use).
    pub span: Span,
}

impl Expr {
    /// Makes an expression.
    pub fn new(kind: ExprKind, ty: Type, span: Span) -> Self {
        Self { kind, ty, span }
    }
}

/// The kinds of expression. Operands are scalars unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum ExprKind {
    /// A scalar known now, extended to 64 bits.
    Constant(u64),
    /// Bytes known now, zero-padded to the size of its type ([`Type::CharArray`], where there is room with a NUL; [`Type::Buffer`], [`Type::Array`]).
    ConstantBytes(Vec<u8>),
    /// The address of the hook's context, which register 1 held at the start.
    ContextPointer,
    /// In a loop by a helper: the address of the current element's key, or the index of the iteration.
    ElementKey,
    /// In a loop over a map: the address of the current element's value.
    ElementValue,
    /// The `size` (1, 2, 4, 8) bytes at `address + offset`, extended as `signed` says.
    Load {
        address: Box<Expr>,
        offset: i32,
        size: u8,
        signed: bool,
        access: Access,
    },
    /// `bits` bits of `value` from bit `shift` (0 is the least significant) on, extended as `signed` says.
    BitField {
        value: Box<Expr>,
        shift: u8,
        bits: u8,
        signed: bool,
    },
    /// The address of a frame object filled with these words in order, such as a struct passed in registers.
    FrameWords(Vec<Expr>),
    /// A value that a helper of the kernel gives.
    Intrinsic(Intrinsic),
    /// The result of a helper with these operands, called anew each time.
    HelperCall { helper: Helper, operands: Vec<Expr> },
    /// `op value`; 64-bit.
    Unary { op: UnaryOp, value: Box<Expr> },
    /// `left op right`; 64-bit; `signed` matters to division, remainder and right shift. Division by zero gives 0.
    Binary {
        op: BinaryOp,
        signed: bool,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// 1 or 0; 64-bit; `signed` matters to orderings.
    Compare {
        op: CompareOp,
        signed: bool,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// 1 or 0; the right operand is evaluated only where the left does not decide. `and` or else `or`.
    Logic {
        and: bool,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `then` where the condition is not zero, else `otherwise`; without `then`, the condition's own value.
    Ternary {
        condition: Box<Expr>,
        then: Option<Box<Expr>>,
        otherwise: Box<Expr>,
    },
    /// The low `size` bytes, extended to 64 bits as `signed` says (`size` < 8).
    Convert {
        value: Box<Expr>,
        size: u8,
        signed: bool,
    },
    /// A scratch variable's value, of a scalar type.
    Variable(VariableId),
    /// The address of the frame object with a scratch variable that is no scalar.
    VariableAddress(VariableId),
    /// The address of a frame object of that many bytes with a copy of a map's value; zeroes where the map holds nothing.
    MapCopy(MapPlace, u32),
    /// Not a scalar: a tuple or record made of its members, each of its member's type.
    Tuple(Vec<Expr>),
    /// The value of an expression, after statements that are executed first.
    Sequence {
        statements: Vec<Statement>,
        value: Box<Expr>,
    },
    /// The value of a `param`, by its name: 64 bits that user space can change while the program runs.
    Parameter(String),
    /// 1 where the thread of this number is one that the session follows, else 0.
    IsTarget(Box<Expr>),
    /// 1 where both strings are equal up to their NUL, else 0 (`negated` swaps). Operands are [`ExprKind::ConstantBytes`],
    /// [`ExprKind::Bytes`], [`ExprKind::Comm`] or [`ExprKind::ReadString`]; a constant is always on the right. At most
    /// `bytes` bytes are looked at. With a constant, all `bytes` first bytes must be equal (they include its NUL where
    /// the other operand has room for it); else the comparison ends at the first NUL.
    StringEqual {
        left: Box<Expr>,
        right: Box<Expr>,
        bytes: u32,
        negated: bool,
    },
    /// 1 where two values that are no scalars are the same in their first `bytes` bytes as they are kept, else 0 (`negated` swaps).
    BytesEqual {
        left: Box<Expr>,
        right: Box<Expr>,
        bytes: u32,
        negated: bool,
    },
    /// The difference of the first bytes in which two values differ, 0 where `bytes` bytes are the same.
    BytesOrder {
        left: Box<Expr>,
        right: Box<Expr>,
        bytes: u32,
    },
    /// 1 where the pattern stands for the text up to its NUL, of which at most `bytes` bytes are looked at, else 0. The text is not a constant.
    StringGlob { text: Box<Expr>, glob: Glob, bytes: u32 },
    /// Not a scalar: `size` bytes at `address + offset` ([`Type::CharArray`], [`Type::Array`]; [`Type::Struct`] never
    /// reaches the back end). Unreadable bytes count as zero.
    Bytes {
        address: Box<Expr>,
        offset: i32,
        size: u32,
        access: Access,
    },
    /// Not a scalar: an array given element by element, each a scalar; only as a field of a record.
    Elements(Vec<Expr>),
    /// Not a scalar: the current task's name, 16 bytes.
    Comm,
    /// Not a scalar: the NUL-terminated string at `address`, at most `max` bytes without its NUL; empty where unreadable.
    /// Without a space, it is read where the address itself belongs (`bpf_probe_read_str`). With a `length`, no byte behind so many is
    /// looked at: the text need not end with a NUL.
    ReadString {
        address: Box<Expr>,
        space: Option<Space>,
        max: u32,
        length: Option<Box<Expr>>,
    },
    /// Not a scalar: `length` bytes of memory at `address`, NULs among them, at most `max`; only as a field of a record.
    ReadMemory {
        address: Box<Expr>,
        space: Option<Space>,
        max: u32,
        length: Box<Expr>,
    },
    /// Not a scalar: at most `max` return addresses, innermost first.
    Stack { space: Space, max: u32 },
    /// Not a scalar: the process's registers, and so many bytes of its stack as far as it is there, what the field has no room for in pieces.
    StackCopy { bytes: u32 },
    /// Not a scalar: at most `max` frames of the process, found in the kernel by its unwind tables.
    Unwound { max: u32 },
    /// The value of a map of scalars or strings: 0 or the empty string where the key is absent. A string is not a scalar.
    MapValue(MapPlace),
    /// The generation of the map: the number of times that it was cleared.
    Generation(Arc<MapType>),
    /// Where the kernel has a map.
    MapAddress(Arc<MapType>),
    /// A number of an aggregated value of a map, all CPUs together; 0 where the map holds nothing.
    Aggregate(MapPlace, AsNumber),
    /// Whether bytes stand in a text (a constant needle), each up to its NUL; at most so many bytes are looked at.
    StringFind {
        text: Box<Expr>,
        needle: Vec<u8>,
        bytes: u32,
        /// Whether only the text's begin counts.
        prefix: bool,
    },
    /// 1 where a text begins with another one, which is looked at up to its NUL and at most so many bytes, else 0.
    StringBegins {
        text: Box<Expr>,
        with: Box<Expr>,
        bytes: u32,
    },
    /// A scalar with its low bytes in the other order.
    SwapBytes { value: Box<Expr>, size: u8 },
    /// 1 where the map holds something there, else 0.
    HasKey(MapPlace),
    /// The number of the event itself, as its first record has it.
    EventNumber,
    /// 1, the result of a division by zero, which is also counted.
    DividedByZero,
    /// Address 0 in place of an element behind an array's end, counted as the failure of a helper is.
    OutsideOfArray,
    /// 1 where the event that happened, one of several that the program serves, is one that the text names; else 0.
    EventIs { what: EventName, text: String },
}

/// A value of a map: `@x[keys]`.
#[derive(Clone, Debug, PartialEq)]
pub struct MapPlace {
    /// The map that holds the value.
    pub map: Arc<MapType>,
    /// One per key of the map: a scalar, or a text ([`ExprKind::ConstantBytes`], [`ExprKind::Bytes`], [`ExprKind::Comm`], [`ExprKind::ReadString`],
    /// [`ExprKind::MapValue`]) of which as many bytes count as the map's key has.
    pub keys: Vec<Expr>,
}

/// Method of reading memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The hook's context, or a frame object: the address is [`ExprKind::ContextPointer`] or [`ExprKind::FrameWords`] itself and the offset constant; a
    /// plain load.
    Context,
    /// Through a pointer whose BTF type the verifier knows: a plain load, zero where it faults.
    Direct,
    /// The kernel's memory, by `bpf_probe_read_kernel`; zero where it faults.
    Kernel,
    /// The process's memory, by `bpf_probe_read_user`; zero where it faults.
    User,
}

/// A value that a helper of the kernel gives; every one is a scalar of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intrinsic {
    /// The result of a helper that takes no arguments.
    Helper {
        /// The helper that is called.
        helper: Helper,
        /// Whether its result is the same during one run of a program, so that one call is enough.
        fixed: bool,
    },
    /// The numbers of the thread (low half) and its process in the PID namespace that Kestrel runs in.
    Identity,
    /// The time of `bpf_ktime_get_ns`' clock when the session started.
    StartTime,
    /// `bpf_get_func_ip`: the address of the traced function.
    FunctionAddress,
    /// The CPU's preemption count as it was at the event.
    PreemptCount(PreemptCount),
    /// The processor's register of flags as it was at the event, where the program's context has none.
    ProcessorFlags,
}

impl Intrinsic {
    /// Whether this is the address of the task that runs.
    pub fn is_current_task(&self) -> bool {
        matches!(
            self,
            Self::Helper {
                helper: helper::GET_CURRENT_TASK | helper::GET_CURRENT_TASK_BTF,
                ..
            }
        )
    }

    /// Whether these are the numbers of the process and the thread that run.
    pub fn is_identity(&self) -> bool {
        *self == Self::Identity || *self == Self::fixed(helper::GET_CURRENT_PID_TGID)
    }

    /// A helper whose result is the same during one run of a program.
    pub const fn fixed(helper: Helper) -> Self {
        Self::Helper { helper, fixed: true }
    }

    /// A helper that is called each time its value is used.
    pub(crate) const fn varying(helper: Helper) -> Self {
        Self::Helper { helper, fixed: false }
    }
}

impl fmt::Debug for Intrinsic {
    /// A helper by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Helper { helper, .. } => f.write_str(helper.name().unwrap_or("helper")),
            Self::Identity => f.write_str("get_current_pid_tgid"),
            Self::StartTime => f.write_str("StartTime"),
            Self::FunctionAddress => f.write_str("FunctionAddress"),
            Self::PreemptCount(_) => f.write_str("PreemptCount"),
            Self::ProcessorFlags => f.write_str("ProcessorFlags"),
        }
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-value`.
    Negate,
    /// `~value`.
    BitNot,
    /// 1 where the value is 0, else 0.
    Not,
}

/// Operators with two operands and a 64-bit result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its operator")]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its operator")]
pub enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl BinaryOp {
    /// How it is written.
    pub(in crate::check) fn word(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
        }
    }
}

impl CompareOp {
    /// How it is written.
    pub(in crate::check) fn word(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
        }
    }
}
