//! The syntax tree of the bpftrace language and of Kestrel's table files; every node knows its bytes in the source.

pub use kestrel_bpf::code::SourceRange as Span;

/// A value with its place in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// The part of the tree.
    pub node: T,
    /// The bytes in the source.
    pub span: Span,
}

/// A whole source text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Items in source order.
    pub items: Vec<Item>,
}

/// An item at the top of a source text.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Events, an optional predicate, an optional block.
    Probe(Probe),
    /// `config = { name = value; … }`.
    Config(Vec<(Spanned<String>, Expr)>),
    /// `import "path"`.
    Import(Spanned<String>),
    /// `struct`, `union`, `enum`, `typedef` in the words of C.
    Definition(Definition),
    /// `let @name = lruhash(10)`.
    Map(MapDeclaration),
    /// `macro name($x, @y, z) { … }`.
    Macro(Macro),
    /// `fn name($x : type) : type { … }`.
    Subprogram(Subprogram),
    /// `buffer NAME { size = 4M … }`.
    Buffer(Buffer),
    /// `table NAME [: PARENT] { probe… }`.
    Table(Table),
    /// `param NAME = VALUE`.
    Param(Spanned<String>, Expr),
}

/// A C declaration, up to its semicolon.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The types that are defined in it, inner ones first.
    pub types: Vec<CType>,
    /// The names that a `typedef` gives.
    pub names: Vec<Declarator>,
    /// The place of the whole definition.
    pub span: Span,
}

/// A `struct`, `union` or `enum` with its body.
#[derive(Clone, Debug, PartialEq)]
pub struct CType {
    /// The kind of tag.
    pub tag: TypeTag,
    /// The name; a type without one has a name that C cannot spell: `(1)`, `(2)`, ….
    pub name: Spanned<String>,
    /// The type's body.
    pub body: CBody,
    /// The place of the whole type.
    pub span: Span,
}

/// Body of a C struct, union or enum.
#[derive(Clone, Debug, PartialEq)]
pub enum CBody {
    /// Members of a `struct` or `union`.
    Members {
        /// In source order.
        members: Vec<Declarator>,
        /// Whether it has no padding.
        packed: bool,
        /// Most bytes that members are aligned by (`#pragma pack`); 0 for no limit.
        pack: u64,
        /// At least so aligned, by an attribute.
        align: Option<Box<Expr>>,
    },
    /// Of an `enum`: names, and the values that are written.
    Values(Vec<(Spanned<String>, Option<Expr>)>),
}

/// A declared name and its type; the name of an anonymous member is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Declarator {
    /// The name that is declared.
    pub name: Spanned<String>,
    /// The type that it is declared with.
    pub ty: CTypeUse,
    /// `: bits`.
    pub bits: Option<Box<Expr>>,
    /// Whether it follows the member before it without padding, by an attribute.
    pub packed: bool,
    /// At least so aligned, by an attribute.
    pub align: Option<Box<Expr>>,
}

/// A type as C spells it around a name, turned into the order in which it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct CTypeUse {
    /// `struct`, `union`, `enum`, if one was written.
    pub tag: Option<TypeTag>,
    /// `task_struct`, `unsigned int`, `u64`; that of a type without a name as in [`CType`].
    pub name: String,
    /// From the named type outwards: `int (*p)[4]` is `[Array(4), Pointer]`.
    pub shape: Vec<CShape>,
    /// Where the named type is written.
    pub span: Span,
}

/// One layer (pointer, array, function) around a named C type.
#[derive(Clone, Debug, PartialEq)]
pub enum CShape {
    /// `*`.
    Pointer,
    /// `[n]`; `[]` has no count.
    Array(Option<Box<Expr>>),
    /// `(…)`: a function, whose parameters are of no interest.
    Function,
}

/// `let @name = kind(most)`.
#[derive(Clone, Debug, PartialEq)]
pub struct MapDeclaration {
    /// The map, without the at sign.
    pub name: Spanned<String>,
    /// `hash`, `lruhash`, `percpuhash`, `percpulruhash`.
    pub kind: Spanned<String>,
    /// How many entries it has at most.
    pub args: Vec<Expr>,
    /// The place of the whole declaration.
    pub span: Span,
}

/// `macro name($x, @y, z) { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Macro {
    /// The macro's name.
    pub name: Spanned<String>,
    /// The macro's parameters.
    pub parameters: Vec<MacroParameter>,
    /// The block that replaces a call.
    pub body: ValueBlock,
    /// The place of the whole macro.
    pub span: Span,
}

/// A parameter of a macro.
#[derive(Clone, Debug, PartialEq)]
pub struct MacroParameter {
    /// The kind of argument.
    pub kind: MacroParameterKind,
    /// Without its sign.
    pub name: String,
    /// With its sign.
    pub span: Span,
}

/// Kind of argument that a macro's parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacroParameterKind {
    /// `$x`: a variable, which the body may change.
    Variable,
    /// `@x`: a map, which the body may change.
    Map,
    /// `x`: any expression, put where the body has the name.
    Expression,
}

/// `fn name($x : type) : type { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Subprogram {
    /// The function's name.
    pub name: Spanned<String>,
    /// Names without the dollar, and types.
    pub parameters: Vec<(Spanned<String>, TypeName)>,
    /// The type of the result.
    pub result: TypeName,
    /// The function's body.
    pub body: Block,
    /// The place of the whole function.
    pub span: Span,
}

/// `buffer NAME { key = value … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The buffer's name.
    pub name: Spanned<String>,
    /// Settings in source order.
    pub settings: Vec<(Spanned<String>, Expr)>,
}

/// `table NAME [: PARENT] { probe… }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The table's name.
    pub name: Spanned<String>,
    /// The table it starts from.
    pub parent: Option<Spanned<String>>,
    /// The table's probes.
    pub probes: Vec<Probe>,
}

/// Events, an optional predicate, an optional block.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// At least one.
    pub events: Vec<EventSpec>,
    /// The predicate between slashes.
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
    /// `name =` before the event.
    pub name: Option<Spanned<String>>,
    /// `kprobe`, `vfs_*`; `tracepoint`, `sched`, `sched_switch`; `sched`, `sched_switch`; `interval`, `s`, `1`; `BEGIN`.
    pub parts: Vec<EventPart>,
    /// The place of the whole specification, without its name.
    pub span: Span,
}

/// A part of an event's name.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPart {
    /// Text, quotes removed; may hold `*`, `?` and `[…]`.
    pub text: String,
    /// `+0x12` after it.
    pub offset: Option<u64>,
    /// The bytes in the source.
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

/// `{ statement…; value }` where a value is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueBlock {
    /// In source order.
    pub statements: Vec<Statement>,
    /// The last expression, if no semicolon follows it.
    pub value: Option<Box<Expr>>,
    /// With its braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Kind of the statement, with its parts.
    pub kind: StatementKind,
    /// The bytes in the source.
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
    /// `_ = value`: for its effect, and that it has a value is known.
    Discard(Expr),
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
    /// One of the several handlers of an event, which run one after the other: `return` ends it, and it alone.
    Handler { predicate: Option<Expr>, body: Block },
    /// `return`, `return value`.
    Return(Option<Expr>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
}

/// Range of a `for` loop.
#[derive(Clone, Debug, PartialEq)]
pub enum ForRange {
    /// `start..end`, end excluded.
    Range(Expr, Expr),
    /// The entries of a map.
    Map(Expr),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Kind of the expression, with its parts.
    pub kind: ExprKind,
    /// The bytes in the source.
    pub span: Span,
}

/// Operators of one level of an expression that are a tree of [`ExprKind::Binary`]; more are a [`ExprKind::Chain`], which is checked in pieces of so many.
pub const CHAIN_LINKS: usize = 100;

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
    /// `a op b op c …`, from left to right, of more operators than [`CHAIN_LINKS`]: as a list, so that no walk over the tree goes deeper with each operator.
    Chain {
        first: Box<Expr>,
        rest: Vec<(BinaryOp, Expr)>,
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
    /// `(a, b)`, `(a,)`, `()`.
    Tuple(Vec<Expr>),
    /// `(name = a, other = b)`.
    Record(Vec<(Spanned<String>, Expr)>),
    /// `{ statement…; value }`.
    Block(ValueBlock),
    /// `if (c) { a } else { b }` where a value is wanted.
    If {
        condition: Box<Expr>,
        then: ValueBlock,
        otherwise: Option<ValueBlock>,
    },
    /// `comptime a`: known before the program runs.
    Comptime(Box<Expr>),
    /// `sizeof(type)`, `sizeof(expr)`.
    Sizeof(Box<SizeofOperand>),
    /// `typeof(type)`, `typeof(expr)` as the argument of a macro.
    Typeof(Box<SizeofOperand>),
    /// `typeinfo(type)`, `typeinfo(expr)`.
    Typeinfo(Box<SizeofOperand>),
    /// `offsetof(type, member.member[2])`, `offsetof(expr, member)`.
    Offsetof {
        of: Box<SizeofOperand>,
        path: Vec<PathStep>,
    },
    /// Where the text could not be read; a diagnostic has said so.
    Error,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// `name = value`.
    pub name: Option<Spanned<String>>,
    /// The argument's value.
    pub value: Expr,
}

/// A step of the path in `offsetof`.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// `.name`; the first has no point.
    Member(Spanned<String>),
    /// `[n]`.
    Index(Expr),
}

/// Operand of `sizeof` and its kin.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeofOperand {
    /// A type.
    Type(TypeName),
    /// An expression's type.
    Expr(Expr),
}

/// A type as written: `struct task_struct *`, `uint64`, `char[16]`, `typeof($x)*[2]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// `struct`, `union`, `enum`, if one was written.
    pub tag: Option<TypeTag>,
    /// The name: `task_struct`, `unsigned int`, `uint64`; empty for `typeof`.
    pub name: String,
    /// The expression in `typeof(expression)`.
    pub of: Option<Box<Expr>>,
    /// Suffixes, from the left to the right: `int32*[4]` is an array of four pointers.
    pub suffixes: Vec<TypeSuffix>,
    /// The bytes in the source.
    pub span: Span,
}

/// Suffix after the name of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeSuffix {
    /// `*`.
    Pointer,
    /// `[n]`; `[]` takes its size from what is converted.
    Array(Option<Box<Expr>>),
}

impl TypeName {
    /// The number of pointers and the lengths of arrays, outermost first, of a named type whose pointers come first and whose
    /// lengths are numbers.
    pub fn plain(&self) -> Option<(u32, Vec<Option<u64>>)> {
        let (mut pointers, mut arrays) = (0, Vec::new());
        for suffix in &self.suffixes {
            match suffix {
                TypeSuffix::Pointer if arrays.is_empty() => pointers += 1,
                TypeSuffix::Pointer => return None,
                TypeSuffix::Array(None) => arrays.push(None),
                TypeSuffix::Array(Some(count)) => match count.kind {
                    ExprKind::Integer { value, .. } => arrays.push(Some(value)),
                    _ => return None,
                },
            }
        }
        self.of.is_none().then_some((pointers, arrays))
    }
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

impl Expr {
    /// `left op right op right …`, which stands in `whole`, as a tree of [`ExprKind::Binary`]. Operands that are arguments of macros were written elsewhere.
    pub(crate) fn joined(left: Self, rest: impl IntoIterator<Item = (BinaryOp, Self)>, whole: Span) -> Self {
        let is_inside = |span: Span| whole.start <= span.start && span.end <= whole.end;
        rest.into_iter().fold(left, |left, (op, right)| Self {
            span: Span {
                start: if is_inside(left.span) {
                    left.span.start
                } else {
                    whole.start
                },
                end: if is_inside(right.span) {
                    right.span.end
                } else {
                    whole.end
                },
            },
            kind: ExprKind::Binary {
                op,
                left: Box::new(left),
                right: Box::new(right),
            },
        })
    }
}
