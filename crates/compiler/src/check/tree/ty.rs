//! Types of the checked tree: scalars, which are one register, and values that are bytes in memory.

use kestrel_bpf::btf::TypeId;
use kestrel_trace::layout::{Base, HeldStack, Named, Names, Space, StackMode};
use std::sync::Arc;

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
    /// `char[size]`: a string up to the first NUL.
    CharArray { size: u32 },
    /// A string of at most `max` bytes, without a NUL.
    String { max: u32 },
    /// At most `max` bytes of memory.
    Memory { max: u32 },
    /// At most `max` bytes of memory as they are kept: their number (`u32`), the bytes, zeroes up to a multiple of 4.
    Buffer { max: u32 },
    /// `count` elements.
    Array { element: Box<Type>, count: u32 },
    /// A struct or union in memory, of the kernel's BTF.
    Struct(TypeId, PointersWithin),
    /// Several values, one behind the other as C lays out a struct.
    Tuple(Arc<TupleType>),
    /// A number that readers show by name (an error, a signal, a system call, a user); `ExprKind::Tuple` makes it of its parts.
    Named(Named),
    /// Return addresses as they are kept, in a fixed number of bytes.
    HeldStack(HeldStack),
    /// A stack: return addresses, innermost first.
    Stack { space: Space, max: u32, mode: StackMode },
    /// A copy of at most `max` bytes of the process's stack; without it, of as many as a record has room for.
    StackCopy {
        max: Option<u32>,
        /// The mode it is shown in and the most frames shown, if the program names them.
        shown: Option<(StackMode, u32)>,
    },
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

    /// An integer in hexadecimal.
    pub(crate) const fn hexadecimal(size: u8) -> Self {
        Self::Integer {
            size,
            signed: false,
            show: Show::Number(Base::Hexadecimal),
        }
    }

    /// Whether a value of this type is one 64-bit register.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Bool | Self::Pointer(_))
    }

    /// Whether it is text of either kind.
    pub(crate) fn is_string(&self) -> bool {
        matches!(self, Self::CharArray { .. } | Self::String { .. })
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

    /// A struct or union whose pointers are the kernel's, as most are.
    pub(crate) const fn composite(id: TypeId) -> Self {
        Self::Struct(id, PointersWithin(Space::Kernel))
    }

    /// The type of the same value in the memory of a process: pointers in it are the process's.
    pub(crate) fn of_process(self) -> Self {
        match self {
            Self::Pointer(pointer) => Self::Pointer(Pointer {
                trusted: false,
                space: Space::User,
                ..pointer
            }),
            Self::Struct(id, _) => Self::Struct(id, PointersWithin(Space::User)),
            Self::Array { element, count } => Self::Array {
                element: Box::new(element.of_process()),
                count,
            },
            ty => ty,
        }
    }

    /// Whether arithmetic, comparison and extension treat it as signed.
    pub fn is_signed(&self) -> bool {
        matches!(self, Self::Integer { signed: true, .. })
    }
}

/// The address space of the pointers within a struct, but for those whose types name theirs: that of the memory that it was copied from. It makes no
/// difference between types.
#[derive(Clone, Copy, Debug)]
pub struct PointersWithin(pub Space);

impl PartialEq for PointersWithin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
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

/// A member of a tuple.
#[derive(Clone, Debug, PartialEq)]
pub struct TupleMember {
    /// The name in a record; empty in a tuple.
    pub name: String,
    /// The member's type.
    pub ty: Type,
    /// Bytes from the start of the tuple.
    pub offset: u32,
    /// The member's size in bytes.
    pub size: u32,
}

/// How an integer is shown.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum Show {
    /// A number, shown in a base.
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
    pub(in crate::check) fn base(&self) -> Base {
        match self {
            Self::Number(base) => *base,
            Self::Natural | Self::Names(_) | Self::Flags(_) => Base::Decimal,
        }
    }
}

/// A pointer and what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The value that lies there, after `levels` more pointers.
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

impl Pointer {
    /// A pointer to what is not known, such as C's `void *`.
    pub(crate) fn untyped(space: Space) -> Self {
        Self {
            to: Pointee::Unknown,
            levels: 0,
            space,
            trusted: false,
            symbolic: false,
        }
    }

    /// Whether integers lie at both addresses, of whatever sizes.
    pub(in crate::check) fn leads_to_integers_as(&self, other: &Self) -> bool {
        let integer = |pointer: &Self| matches!(pointer.to, Pointee::Char | Pointee::Integer { .. });
        self.levels == other.levels && integer(self) && integer(other)
    }
}

/// The value at an address.
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
    /// An array of `count` integers of `size` bytes.
    Integers { size: u8, signed: bool, count: u32 },
    /// A type of the kernel's BTF.
    Btf(TypeId),
    /// A string of the language, in so many bytes with the one that ends it.
    String { size: u32 },
    /// A value of the language that is neither number nor string: a tuple, an array.
    Value(PointeeId),
}

/// The place of a type among those of values that addresses lead to ([`crate::check::shape::Shapes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PointeeId(pub u32);
