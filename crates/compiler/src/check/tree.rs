//! The checked tree: every name resolved, every walk a chain of loads, every value typed; small, because the back end
//! lowers exactly these nodes. No syntax, no BTF look-ups, no instructions.
//!
//! **Values.** A *scalar* expression ([`Type::is_scalar`]) is one 64-bit register, zero- or sign-extended from its type's
//! size. Any other expression denotes bytes in memory and stands only where bytes are wanted: as a field of a
//! [`Record`] and as an operand of [`ExprKind::TextEqual`].

use crate::context::PreemptCount;
use crate::lang::ast::Span;
use crate::lang::glob::Glob;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::helper::Helper;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::layout::{Base, EventName, HeldStack, Layout, Named, Names, Space, StackMode};
use std::fmt;
use std::sync::Arc;

/// What one event's hook does: evaluate the predicate, and where it is not zero run the body.
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
    /// What it has to do with an event that came before; asked before the predicate.
    pub pair: Option<CheckedPair>,
}

/// How a handler finds the event that came first, and what must happen there.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPair {
    /// Holds something where the first event came; the handler runs only then.
    pub mark: MapPlace,
    /// What else was kept. When the handler ends, however it ends, all of it is deleted.
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
    /// Its type.
    pub ty: Type,
    /// Bytes of a value that is not a scalar.
    pub size: u32,
}

/// A scratch variable's place in [`CheckedProbe::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Its bytes in the source.
    pub span: Span,
}

/// What a statement does.
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
    ForEach { over: Over, body: Vec<Statement> },
    /// Leave the innermost loop.
    Break,
    /// Go on with the next time of the innermost loop.
    Continue,
    /// End the hook.
    Return,
}

/// What a loop that a helper makes goes over.
#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    /// The elements of a map: their addresses are [`ExprKind::ElementKey`] and [`ExprKind::ElementValue`].
    Map(Arc<MapType>),
    /// So many times, a scalar; how many there were before is [`ExprKind::ElementKey`].
    Times(Expr),
}

/// A value of a map: `@x[keys]`.
#[derive(Clone, Debug, PartialEq)]
pub struct MapPlace {
    /// The map.
    pub map: Arc<MapType>,
    /// One per key of the map: a scalar, or a text ([`ExprKind::Text`], [`ExprKind::Bytes`], [`ExprKind::Comm`], [`ExprKind::ReadString`],
    /// [`ExprKind::MapValue`]) of which as many bytes count as the map's key has.
    pub keys: Vec<Expr>,
}

/// What is done to a map.
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
        /// Whether the keys stay, with zero: their reader sees to that.
        zeroed: bool,
    },
}

/// One record: values for the fields of a layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where each value goes.
    pub layout: Layout,
    /// One value per field of `layout.fields()`, in that (reading) order:
    ///
    /// | field type | value |
    /// |---|---|
    /// | integer, bool, pointer, enumeration, flags | a scalar, of which the low `size` bytes are stored |
    /// | text of `size` bytes | [`ExprKind::Text`] or [`ExprKind::Bytes`] of that size, or [`ExprKind::Comm`] (16) |
    /// | array | [`ExprKind::Bytes`] of the array's size, or [`ExprKind::Elements`], one each |
    /// | string | [`ExprKind::ReadString`] with the same `max` |
    /// | bytes | [`ExprKind::ReadMemory`] with the same `max` |
    /// | stack | [`ExprKind::Stack`] with the same `max` |
    /// | copy of a stack | [`ExprKind::StackCopy`]; the field's `max` counts |
    pub values: Vec<Expr>,
    /// Where it goes.
    pub to: Destination,
    /// The action that its reader performs, if the handler asks for one.
    pub asks: Option<kestrel_trace::action::Action>,
}

/// Where a record goes.
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

/// What a handler does to its session; names are those of the table file, known to exist.
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
        /// Its program; empty until planning has chosen it.
        program: String,
    },
}

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Its bytes in the source (of the use, for a field rule).
    pub span: Span,
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
    /// Bytes known now, zero-padded to the size of its type ([`Type::Text`], where there is room with a NUL; [`Type::Buffer`], [`Type::Array`]).
    Text(Vec<u8>),
    /// What register 1 held at the start: the address of the hook's context.
    ContextPointer,
    /// In a loop that a helper makes: the address of the element's key, or how many times there were before.
    ElementKey,
    /// In a loop over a map: the address of the element's value.
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
    /// The address of a frame object that these words fill, one after another: a struct that registers hold.
    Gathered(Vec<Expr>),
    /// A value of the kernel that a helper gives.
    Intrinsic(Intrinsic),
    /// What a helper answers to these operands, which is asked each time.
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
    /// The address of the frame object that a scratch variable of another type is.
    VariableAddress(VariableId),
    /// The address of a frame object of so many bytes that what a map holds there is copied to; zeroes where it holds nothing.
    MapCopy(MapPlace, u32),
    /// Not a scalar: a tuple or record made of its members, each of its member's type.
    Tuple(Vec<Expr>),
    /// The value of an expression behind statements that are done first.
    Sequence {
        statements: Vec<Statement>,
        value: Box<Expr>,
    },
    /// The value of a `param`, by its name: 64 bits that user space can change while the program runs.
    Parameter(String),
    /// 1 where the thread of this number is one that the session follows, else 0.
    IsTarget(Box<Expr>),
    /// 1 where both texts are equal up to their NUL, else 0 (`negated` swaps). Operands are [`ExprKind::Text`],
    /// [`ExprKind::Bytes`], [`ExprKind::Comm`] or [`ExprKind::ReadString`]; a constant is always on the right. At most
    /// `bytes` bytes are looked at. With a constant, all `bytes` first bytes must be equal (they include its NUL where
    /// the other operand has room for it); else the comparison ends at the first NUL.
    TextEqual {
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
    TextGlob { text: Box<Expr>, glob: Glob, bytes: u32 },
    /// Not a scalar: `size` bytes at `address + offset` ([`Type::Text`], [`Type::Array`]; [`Type::Struct`] never
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
    /// What a map of scalars or texts holds there: 0 or the empty text where it holds nothing. A text is not a scalar.
    MapValue(MapPlace),
    /// How often the map was cleared so far.
    Generation(Arc<MapType>),
    /// What a map gathers there as one number: all CPUs together; 0 where it holds nothing.
    Gathering(MapPlace),
    /// Whether bytes stand in a text (a constant needle), each up to its NUL; at most so many bytes are looked at.
    TextFind {
        text: Box<Expr>,
        needle: Vec<u8>,
        bytes: u32,
        /// Whether only the text's begin counts.
        prefix: bool,
    },
    /// 1 where a text begins with another one, which is looked at up to its NUL and at most so many bytes, else 0.
    TextBegins {
        text: Box<Expr>,
        with: Box<Expr>,
        bytes: u32,
    },
    /// A scalar with its low bytes in the other order.
    SwapBytes { value: Box<Expr>, size: u8 },
    /// 1 where the map holds something there, else 0.
    HasKey(MapPlace),
    /// The number of the event itself (of its first record).
    EventNumber,
    /// What a division by zero gives, 1, and that it is counted.
    DividedByZero,
    /// 1 where the event, one of those that the program serves, is one that the text names, else 0.
    EventIs { what: EventName, text: String },
}

/// How memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The hook's context, or a frame object: the address is [`ExprKind::ContextPointer`] or [`ExprKind::Gathered`] itself and the offset constant; a
    /// plain load.
    Context,
    /// Through a pointer whose BTF type the verifier knows: a plain load, zero where it faults.
    Direct,
    /// The kernel's memory, by `bpf_probe_read_kernel`; zero where it faults.
    Kernel,
    /// The process's memory, by `bpf_probe_read_user`; zero where it faults.
    User,
}

/// What a helper gives; every one is a scalar of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intrinsic {
    /// What a helper of the kernel says that takes no arguments.
    Helper {
        /// The helper.
        helper: Helper,
        /// Whether it says the same for the whole run of a program, so that one call is enough.
        fixed: bool,
    },
    /// The numbers of the thread (low half) and its process as they are seen where Kestrel runs: those of its PID namespace.
    Identity,
    /// The time of `bpf_ktime_get_ns`' clock when the session started.
    StartTime,
    /// `bpf_get_func_ip`: the address of the traced function.
    FunctionAddress,
    /// The CPU's preemption count as it was at the event.
    PreemptCount(PreemptCount),
}

impl Intrinsic {
    /// A helper that says the same for the whole run of a program.
    pub const fn fixed(helper: Helper) -> Self {
        Self::Helper { helper, fixed: true }
    }

    /// A helper that is called each time that its value is wanted.
    pub const fn varying(helper: Helper) -> Self {
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

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum Type {
    /// A scalar of 1, 2, 4 or 8 bytes.
    Integer { size: u8, signed: bool, show: Show },
    /// A scalar, 0 or 1.
    Bool,
    /// A scalar: an address.
    Pointer(Pointer),
    /// `size` bytes of text, up to the first NUL.
    Text { size: u32 },
    /// At most `max` bytes of text, without a NUL.
    String { max: u32 },
    /// At most `max` bytes of memory.
    Memory { max: u32 },
    /// At most `max` bytes of memory as they are kept: their number (`u32`), the bytes, zeroes up to a multiple of 4.
    Buffer { max: u32 },
    /// `count` elements.
    Array { element: Box<Type>, count: u32 },
    /// A struct or union in memory, of the kernel's BTF.
    Struct(TypeId),
    /// Several values, one behind the other as C lays out a struct.
    Tuple(Arc<TupleType>),
    /// Bytes that are shown by a name which the reader finds; made by [`ExprKind::Tuple`] of its parts.
    Named(Named),
    /// Return addresses as they are kept, in a fixed number of bytes.
    HeldStack(HeldStack),
    /// Return addresses.
    Stack { space: Space, max: u32, mode: StackMode },
    /// A copy of at most `max` bytes of the process's stack; without it, of as many as a record has room for.
    StackCopy {
        max: Option<u32>,
        /// How it is shown, and how many of its frames, where that is said.
        shown: Option<(StackMode, u32)>,
    },
}

/// The members of a tuple or record.
#[derive(Clone, Debug, PartialEq)]
pub struct TupleType {
    /// In source order.
    pub members: Vec<TupleMember>,
    /// Bytes, a multiple of `align`.
    pub size: u32,
    /// 1, 2, 4 or 8.
    pub align: u32,
}

/// A member.
#[derive(Clone, Debug, PartialEq)]
pub struct TupleMember {
    /// Its name in a record; empty in a tuple.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Bytes from the start of the tuple.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
}

/// How an integer is shown.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum Show {
    /// As a number.
    Number(Base),
    /// As a decimal number of those that the text names: it is not negative, so unsigned types of its size hold it, too.
    Natural,
    /// By the name of its value (an `enum`).
    Names(Names),
    /// By the names of its bits.
    Flags(Names),
}

impl Show {
    /// The base of a number.
    pub(super) fn base(&self) -> Base {
        match self {
            Self::Number(base) => *base,
            _ => Base::Decimal,
        }
    }
}

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// What lies there, after `levels` more pointers.
    pub to: Pointee,
    /// Pointers to pass before arriving: 0 for `T *`, 1 for `T **`.
    pub levels: u8,
    /// The address space that the memory is in.
    pub space: Space,
    /// Whether the verifier knows its BTF type, so that it may be read through directly.
    pub trusted: bool,
    /// Whether it is likely the address of code or data with a symbol, to be shown as `symbol+offset`.
    pub symbolic: bool,
}

/// What lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum Pointee {
    /// `void`, or not known.
    Unknown,
    /// A NUL-terminated string.
    Char,
    /// An integer of `size` bytes.
    Integer { size: u8, signed: bool },
    /// A type of the kernel's BTF.
    Btf(TypeId),
}

impl Type {
    /// An unsigned integer of 8 bytes, shown in decimal.
    pub const U64: Self = Self::integer(8, false);
    /// A signed integer of 8 bytes, shown in decimal.
    pub const I64: Self = Self::integer(8, true);

    /// An integer shown in decimal.
    pub const fn integer(size: u8, signed: bool) -> Self {
        Self::Integer {
            size,
            signed,
            show: Show::Number(Base::Decimal),
        }
    }

    /// Whether a value of this type is one 64-bit register.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Bool | Self::Pointer(_))
    }

    /// Whether it is a number that may be an address: a whole word, or one that the text names.
    pub(crate) fn is_word(&self) -> bool {
        let natural = matches!(
            self,
            Self::Integer {
                show: Show::Natural,
                ..
            }
        );
        natural || matches!(self, Self::Integer { size: 8, .. })
    }

    /// Whether arithmetic, comparison and extension treat it as signed.
    pub fn is_signed(&self) -> bool {
        matches!(self, Self::Integer { signed: true, .. })
    }
}

impl Expr {
    /// An expression.
    pub fn new(kind: ExprKind, ty: Type, span: Span) -> Self {
        Self { kind, ty, span }
    }
}
