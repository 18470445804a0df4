//! The syntax tree of the bpftrace language and of Kestrel's table files; every node knows its bytes in the source.

pub use kestrel_bpf::code::SourceRange as Span;

/// A value with its place in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub node: T,
    /// Its bytes in the source.
    pub span: Span,
}

/// A whole source text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Items in source order.
    pub items: Vec<Item>,
}

/// What can stand at the top of a source text.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Events, an optional predicate, an optional block.
    Probe(Probe),
    /// `config = { name = value; … }`.
    Config(Vec<(Spanned<String>, Expr)>),
    /// `buffer NAME { size = 4M … }`.
    Buffer(Buffer),
    /// `table NAME [: PARENT] { probe… }`.
    Table(Table),
    /// `param NAME = VALUE`.
    Param(Spanned<String>, Expr),
}

/// `buffer NAME { key = value … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its name.
    pub name: Spanned<String>,
    /// Settings in source order.
    pub settings: Vec<(Spanned<String>, Expr)>,
}

/// `table NAME [: PARENT] { probe… }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: Spanned<String>,
    /// The table it starts from.
    pub parent: Option<Spanned<String>>,
    /// Its rows.
    pub probes: Vec<Probe>,
}

/// Events, an optional predicate, an optional block.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// At least one.
    pub events: Vec<EventSpec>,
    /// Between slashes.
    pub predicate: Option<Expr>,
    /// `None` where only events were given (`-e sched:sched_switch`); an empty block masks.
    pub block: Option<Block>,
    /// `handler "path.o"`: a program of a compiled object runs where the block has ended, which then is ours: it counts the calls.
    pub object: Option<Spanned<String>>,
    /// From the first event to the end of the block.
    pub span: Span,
}

/// An event's name as typed, cut at its colons; what the parts mean is the catalog's business.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSpec {
    /// `kprobe`, `vfs_*`; `tracepoint`, `sched`, `sched_switch`; `sched`, `sched_switch`; `interval`, `s`, `1`; `BEGIN`.
    pub parts: Vec<EventPart>,
    /// All of it.
    pub span: Span,
}

/// One part of an event's name.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPart {
    /// Text, quotes removed; may hold `*`, `?` and `[…]`.
    pub text: String,
    /// `+0x12` after it.
    pub offset: Option<u64>,
    /// Its bytes in the source.
    pub span: Span,
}

/// `{ statement… }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// In source order.
    pub statements: Vec<Statement>,
    /// With its braces.
    pub span: Span,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it is.
    pub kind: StatementKind,
    /// Its bytes in the source.
    pub span: Span,
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum StatementKind {
    /// An expression for its effect.
    Expr(Expr),
    /// `target = value`, `target += value`.
    Assign {
        target: Expr,
        op: Option<BinaryOp>,
        value: Expr,
    },
    /// `let $x`, `let $x: type = value`.
    Let {
        name: Spanned<String>,
        ty: Option<TypeName>,
        value: Option<Expr>,
    },
    /// `if (c) { … } else { … }`.
    If {
        condition: Expr,
        then: Block,
        otherwise: Option<Block>,
    },
    /// `while (c) { … }`.
    While { condition: Expr, body: Block },
    /// `for ($x : a..b) { … }` or `for ($kv : @map) { … }`.
    For {
        name: Spanned<String>,
        over: ForRange,
        body: Block,
    },
    /// `unroll (n) { … }`.
    Unroll { count: Expr, body: Block },
    /// A bare block.
    Block(Block),
    /// `return`, `return value`.
    Return(Option<Expr>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
}

/// What a `for` goes over.
#[derive(Clone, Debug, PartialEq)]
pub enum ForRange {
    /// `start..end`, end excluded.
    Range(Expr, Expr),
    /// The entries of a map.
    Map(Expr),
}

/// One expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its bytes in the source.
    pub span: Span,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum ExprKind {
    /// `42`, `0x2a`, `1ms` (as ns), `4M` (as bytes); `unsigned` by a suffix `u`.
    Integer { value: u64, unsigned: bool },
    /// `"text"`, escapes resolved.
    String(String),
    /// `true`, `false`.
    Bool(bool),
    /// A bare word: a built-in (`pid`), `args`, an enumerator, a constant.
    Identifier(String),
    /// `$name`, without the dollar.
    Variable(String),
    /// `@name` or `@name[keys]`, without the at sign; the name may be empty.
    Map { name: String, keys: Vec<Expr> },
    /// `$1`, `$2`, …; `$#` is 0 with `count`.
    Positional { index: u32, count: bool },
    /// `f(a, name = b)`.
    Call { name: Spanned<String>, args: Vec<Arg> },
    /// `a.b`, `a->b` (`arrow`), tuple `.0`.
    Member {
        base: Box<Expr>,
        name: Spanned<String>,
        arrow: bool,
    },
    /// `a[i]`.
    Index { base: Box<Expr>, index: Box<Expr> },
    /// `(type)a`.
    Cast { ty: TypeName, value: Box<Expr> },
    /// `!a`, `-a`, `~a`, `*a`, `&a`.
    Unary { op: UnaryOp, value: Box<Expr> },
    /// `a op b`.
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `c ? a : b`; `c ?: b` has no `then`.
    Ternary {
        condition: Box<Expr>,
        then: Option<Box<Expr>>,
        otherwise: Box<Expr>,
    },
    /// `a++`, `--a`.
    Step {
        target: Box<Expr>,
        increment: bool,
        prefix: bool,
    },
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `sizeof(type)`, `sizeof(expr)`.
    Sizeof(Box<SizeofOperand>),
    /// `offsetof(type, member.member)`.
    Offsetof {
        ty: TypeName,
        members: Vec<Spanned<String>>,
    },
    /// Where the text could not be read; a diagnostic has said so.
    Error,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// `name = value`.
    pub name: Option<Spanned<String>>,
    /// The value.
    pub value: Expr,
}

/// What `sizeof` is asked about.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeofOperand {
    /// A type.
    Type(TypeName),
    /// An expression's type.
    Expr(Expr),
}

/// A type as written: `struct task_struct *`, `uint64`, `char[16]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// `struct`, `union`, `enum`, if one was written.
    pub tag: Option<TypeTag>,
    /// The name: `task_struct`, `unsigned int`, `uint64`.
    pub name: String,
    /// Number of `*`.
    pub pointers: u32,
    /// `[n]`, outermost first; `None` for `[]`.
    pub arrays: Vec<Option<u64>>,
    /// Its bytes in the source.
    pub span: Span,
}

/// The word before a type's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeTag {
    /// `struct`.
    Struct,
    /// `union`.
    Union,
    /// `enum`.
    Enum,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `-`
    Negate,
    /// `~`
    BitNot,
    /// `*`
    Dereference,
    /// `&`
    AddressOf,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its operator")]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
    BitXor,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}
