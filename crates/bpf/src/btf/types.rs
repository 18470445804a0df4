//! A type as a value: every kind of BTF decoded from its bytes, without following what it refers to.

use super::Btf;
use super::raw::{TYPE, TypeId, u32_at};

/// Kinds of types, with the numbers of `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub enum BtfKind {
    Int = 1,
    Ptr = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    Fwd = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Func = 12,
    FuncProto = 13,
    Var = 14,
    Datasec = 15,
    Float = 16,
    DeclTag = 17,
    TypeTag = 18,
    Enum64 = 19,
}

impl BtfKind {
    const ALL: [Self; 19] = [
        Self::Int,
        Self::Ptr,
        Self::Array,
        Self::Struct,
        Self::Union,
        Self::Enum,
        Self::Fwd,
        Self::Typedef,
        Self::Volatile,
        Self::Const,
        Self::Restrict,
        Self::Func,
        Self::FuncProto,
        Self::Var,
        Self::Datasec,
        Self::Float,
        Self::DeclTag,
        Self::TypeTag,
        Self::Enum64,
    ];

    /// The kind in a type's `info` word.
    pub(super) fn of_info(info: u32) -> Option<Self> {
        Self::ALL
            .get((info as usize >> 24 & 0x1f).wrapping_sub(1))
            .copied()
    }

    /// Bytes that follow the header of a type of this kind with `count` entries.
    pub(super) fn tail(self, count: usize) -> usize {
        match self {
            Self::Int | Self::Var | Self::DeclTag => 4,
            Self::Array => 12,
            Self::Struct | Self::Union | Self::Datasec | Self::Enum64 => 12 * count,
            Self::Enum | Self::FuncProto => 8 * count,
            _ => 0,
        }
    }
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer<'a> {
    /// The type's name, such as `unsigned int`.
    pub name: &'a str,
    /// Bytes it occupies.
    pub size: u32,
    /// Bits it has; fewer than `8 * size` only in old-style bit fields.
    pub bits: u8,
    /// First of these bits (old-style bit fields).
    pub bit_offset: u8,
    /// `BTF_INT_SIGNED`.
    pub signed: bool,
    /// `BTF_INT_CHAR`, which compilers rarely set.
    pub char: bool,
    /// `BTF_INT_BOOL`.
    pub bool: bool,
}

/// A type; the numbers in it belong to the same [`Btf`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub enum Type<'a> {
    Void,
    /// A number that no type has.
    Unknown,
    Int(Integer<'a>),
    Ptr(TypeId),
    Array {
        element: TypeId,
        index: TypeId,
        count: u32,
    },
    Struct(Composite<'a>),
    Union(Composite<'a>),
    /// `BTF_KIND_ENUM` and `BTF_KIND_ENUM64`.
    Enum(Enumeration<'a>),
    Fwd {
        name: &'a str,
        union: bool,
    },
    Typedef {
        name: &'a str,
        ty: TypeId,
    },
    Volatile(TypeId),
    Const(TypeId),
    Restrict(TypeId),
    TypeTag {
        name: &'a str,
        ty: TypeId,
    },
    Func {
        name: &'a str,
        proto: TypeId,
        /// 0 static, 1 global, 2 extern.
        linkage: u32,
    },
    FuncProto(Prototype<'a>),
    Var {
        name: &'a str,
        ty: TypeId,
        linkage: u32,
    },
    Datasec {
        name: &'a str,
        size: u32,
        entries: Entries<'a>,
    },
    Float {
        name: &'a str,
        size: u32,
    },
    DeclTag {
        name: &'a str,
        ty: TypeId,
        /// Member or parameter the tag is on; -1 for the type itself.
        component: i32,
    },
}

/// The entries that follow a type's header, undecoded.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    btf: &'a Btf,
    raw: &'a [u8],
}

/// A struct or union.
#[derive(Clone, Copy, Debug)]
pub struct Composite<'a> {
    /// The tag; empty when anonymous.
    pub name: &'a str,
    /// Bytes it occupies.
    pub size: u32,
    entries: Entries<'a>,
    bitfields: bool,
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The name; empty for an anonymous struct or union.
    pub name: &'a str,
    /// The member's type.
    pub ty: TypeId,
    /// Where it begins, in bits from the start of the composite.
    pub bit_offset: u32,
    /// Width in bits where it is a bit field.
    pub bits: Option<u32>,
}

impl<'a> Composite<'a> {
    /// The members in order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member<'a>> + use<'a> {
        let Self {
            entries: Entries { btf, raw },
            bitfields,
            ..
        } = *self;
        raw.chunks_exact(12).map(move |raw| {
            let word = |at| u32_at(raw, at).unwrap_or(0);
            let place = word(8);
            let (bit_offset, width) = if bitfields {
                (place & 0xff_ffff, place >> 24)
            } else {
                (place, 0)
            };
            Member {
                name: btf.string(word(0)),
                ty: TypeId(word(4)),
                bit_offset,
                bits: (width != 0).then_some(width),
            }
        })
    }
}

/// An enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Enumeration<'a> {
    /// The tag; empty when anonymous.
    pub name: &'a str,
    /// Bytes it occupies.
    pub size: u32,
    /// Whether its values are signed.
    pub signed: bool,
    entries: Entries<'a>,
    wide: bool,
}

/// A named value of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnumerationValue<'a> {
    /// The enumerator's name.
    pub name: &'a str,
    /// The value; an unsigned 64-bit one above `i64::MAX` shows as negative.
    pub value: i64,
}

impl<'a> Enumeration<'a> {
    /// The values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = EnumerationValue<'a>> + use<'a> {
        let Self {
            entries: Entries { btf, raw },
            wide,
            signed,
            ..
        } = *self;
        raw.chunks_exact(if wide { 12 } else { 8 }).map(move |raw| {
            let word = |at| u32_at(raw, at).unwrap_or(0);
            let value = match (wide, signed) {
                (true, _) => (u64::from(word(4)) | u64::from(word(8)) << 32) as i64,
                (false, true) => i64::from(word(4) as i32),
                (false, false) => i64::from(word(4)),
            };
            EnumerationValue {
                name: btf.string(word(0)),
                value,
            }
        })
    }
}

/// Parameters and result of a function.
#[derive(Clone, Copy, Debug)]
pub struct Prototype<'a> {
    /// The type of the result.
    pub ret: TypeId,
    entries: Entries<'a>,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// The name; may be empty.
    pub name: &'a str,
    /// The type; `void` for the `...` of a variadic function.
    pub ty: TypeId,
}

impl<'a> Prototype<'a> {
    /// The parameters in order; a last one of type `void` stands for `...`.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = Parameter<'a>> + use<'a> {
        let Entries { btf, raw } = self.entries;
        raw.chunks_exact(8).map(move |raw| {
            let word = |at| u32_at(raw, at).unwrap_or(0);
            Parameter {
                name: btf.string(word(0)),
                ty: TypeId(word(4)),
            }
        })
    }
}

/// Place of a variable in its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasecEntry {
    /// The variable, by its BTF id.
    pub ty: TypeId,
    /// The offset in the section.
    pub offset: u32,
    /// The variable's size in bytes.
    pub size: u32,
}

impl<'a> Entries<'a> {
    /// The variables of a section.
    pub fn variables(&self) -> impl ExactSizeIterator<Item = DatasecEntry> + use<'a> {
        self.raw.chunks_exact(12).map(|raw| {
            let word = |at| u32_at(raw, at).unwrap_or(0);
            DatasecEntry {
                ty: TypeId(word(0)),
                offset: word(4),
                size: word(8),
            }
        })
    }
}

impl Btf {
    /// The type of that number; [`Type::Unknown`] where there is none.
    pub fn ty(&self, id: TypeId) -> Type<'_> {
        if id == TypeId::VOID {
            return Type::Void;
        }
        self.decode(id).unwrap_or(Type::Unknown)
    }

    /// A type's kind; `None` for `void` and numbers that no type has.
    pub fn kind(&self, id: TypeId) -> Option<BtfKind> {
        let (_, record) = self.record(id)?;
        BtfKind::of_info(u32_at(record, 4)?)
    }

    /// A type's name; empty where it has none.
    pub fn name(&self, id: TypeId) -> &str {
        self.record(id)
            .and_then(|(owner, record)| Some(owner.string(u32_at(record, 0)?)))
            .unwrap_or("")
    }

    fn decode(&self, id: TypeId) -> Option<Type<'_>> {
        let (btf, record) = self.record(id)?;
        let info = u32_at(record, 4)?;
        // One word that each kind reads in its own way (`struct btf_type` in uapi/linux/btf.h).
        let third = u32_at(record, 8)?;
        let (ty, size, flag) = (TypeId(third), third, info >> 31 == 1);
        let kind = BtfKind::of_info(info)?;
        let raw = record.get(TYPE..TYPE + kind.tail(info as usize & 0xffff))?;
        let name = btf.string(u32_at(record, 0)?);
        let entries = Entries { btf, raw };
        let word = |at| u32_at(raw, at);
        Some(match kind {
            BtfKind::Int => Type::Int(integer(name, size, word(0)?)),
            BtfKind::Ptr => Type::Ptr(ty),
            BtfKind::Array => Type::Array {
                element: TypeId(word(0)?),
                index: TypeId(word(4)?),
                count: word(8)?,
            },
            BtfKind::Struct => Type::Struct(Composite {
                name,
                size,
                entries,
                bitfields: flag,
            }),
            BtfKind::Union => Type::Union(Composite {
                name,
                size,
                entries,
                bitfields: flag,
            }),
            BtfKind::Enum => Type::Enum(Enumeration {
                name,
                size,
                signed: flag,
                entries,
                wide: false,
            }),
            BtfKind::Enum64 => Type::Enum(Enumeration {
                name,
                size,
                signed: flag,
                entries,
                wide: true,
            }),
            BtfKind::Fwd => Type::Fwd { name, union: flag },
            BtfKind::Typedef => Type::Typedef { name, ty },
            BtfKind::Volatile => Type::Volatile(ty),
            BtfKind::Const => Type::Const(ty),
            BtfKind::Restrict => Type::Restrict(ty),
            BtfKind::TypeTag => Type::TypeTag { name, ty },
            BtfKind::Func => Type::Func {
                name,
                proto: ty,
                linkage: info & 0xffff,
            },
            BtfKind::FuncProto => Type::FuncProto(Prototype { ret: ty, entries }),
            BtfKind::Var => Type::Var {
                name,
                ty,
                linkage: word(0)?,
            },
            BtfKind::Datasec => Type::Datasec { name, size, entries },
            BtfKind::Float => Type::Float { name, size },
            BtfKind::DeclTag => Type::DeclTag {
                name,
                ty,
                component: word(0)? as i32,
            },
        })
    }
}

fn integer(name: &str, size: u32, encoding: u32) -> Integer<'_> {
    let flags = encoding >> 24;
    Integer {
        name,
        size,
        bits: encoding as u8,
        bit_offset: (encoding >> 16) as u8,
        signed: flags & 1 != 0,
        char: flags & 2 != 0,
        bool: flags & 4 != 0,
    }
}
