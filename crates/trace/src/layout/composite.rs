//! Values made of several: tuples, records, C structures and unions, each member at an offset of its own.

use super::FieldType;
use kestrel_layout::record::Shape;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Types within types that are taken: metadata of others may say anything.
pub(super) const DEPTH: u32 = 32;

/// Kind of a composite in the language, and so how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompositeKind {
    /// `(1, 2)`; its members have no names.
    Tuple,
    /// `(a = 1, b = 2)`, shown as a structure is.
    Record,
    /// A C structure, shown as `{ .a = 1, .b = 2 }`.
    Struct,
    /// A C union: a structure whose members overlap.
    Union,
}

/// Members in a fixed number of bytes. Bytes that belong to no member are zero where generated code writes them, so that equal values are equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composite {
    /// Kind of the composite: tuple, struct or array.
    pub kind: CompositeKind,
    /// The bytes, a multiple of `align`.
    pub size: u32,
    /// 1, 2, 4 or 8: what the offset of the whole is a multiple of.
    pub align: u32,
    /// In the order in which people read them.
    pub members: Vec<Member>,
}

/// A member of a composite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name; empty in a tuple, and for a structure or union of C without a name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Bytes from the start of the composite to it; of a bit field, to the integer (of the type's size) that holds its bits.
    pub offset: u32,
    /// For a bit field: which of the bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<Bits>,
    /// The type, one of a fixed size.
    pub ty: FieldType,
}

/// Bits of an integer, counted from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bits {
    /// The lowest that belongs to the member.
    pub first: u8,
    /// Number of these, at least 1.
    pub width: u8,
}

impl Composite {
    /// Members one behind the other, each at the next multiple of its alignment, as C places them: what tuples and records of the language are.
    pub fn new(kind: CompositeKind, members: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        let (mut end, mut align) = (0_u32, 1);
        let members = members.into_iter().map(|(name, ty)| {
            let Shape { size, align: own } = ty.fixed_shape();
            let offset = end.checked_next_multiple_of(own).unwrap_or(u32::MAX);
            (end, align) = (offset.saturating_add(size), align.max(own));
            Member {
                name,
                offset,
                bits: None,
                ty,
            }
        });
        let members = members.collect();
        Self {
            kind,
            size: end.checked_next_multiple_of(align).unwrap_or(u32::MAX),
            align,
            members,
        }
    }

    /// A tuple of these types.
    pub fn tuple(types: impl IntoIterator<Item = FieldType>) -> Self {
        Self::new(
            CompositeKind::Tuple,
            types.into_iter().map(|ty| (String::new(), ty)),
        )
    }

    /// Whether its members follow each other without a byte or a bit in common.
    pub(crate) fn is_in_order(&self) -> bool {
        let mut end = 0;
        self.members.iter().all(|member| {
            let follows = member.bits.is_none() && member.offset >= end;
            end = member.offset.saturating_add(member.ty.fixed_size());
            follows
        })
    }

    fn is_sound(&self, depth: u32) -> bool {
        let member = |member: &Member| {
            let size = member.ty.fixed_size();
            let bits = member.bits.is_none_or(|bits| {
                let whole = member.ty.integer_size().map_or(0, |size| u32::from(size) * 8);
                bits.width > 0 && u32::from(bits.first) + u32::from(bits.width) <= whole
            });
            let inside = member
                .offset
                .checked_add(size)
                .is_some_and(|end| end <= self.size);
            bits && inside && member.ty.is_sound_within(depth + 1)
        };
        matches!(self.align, 1 | 2 | 4 | 8)
            && self.size.is_multiple_of(self.align)
            && self.members.iter().all(member)
    }
}

impl FieldType {
    /// A tuple of these types, placed as [`Composite::new`] does.
    pub fn tuple(types: impl IntoIterator<Item = Self>) -> Self {
        Self::Composite(Arc::new(Composite::tuple(types)))
    }

    /// Calls `each` with the type and with each that it is made of.
    pub(crate) fn each_part(&mut self, each: &mut impl FnMut(&mut Self)) {
        match self {
            Self::Array { element, .. } => element.each_part(each),
            Self::Composite(composite) => {
                for member in &mut Arc::make_mut(composite).members {
                    member.ty.each_part(each);
                }
            }
            _ => {}
        }
        each(self);
    }

    /// The bytes where it is an integer, of whatever meaning.
    pub fn integer_size(&self) -> Option<u8> {
        match self {
            Self::Integer { size, .. } | Self::Enumeration { size, .. } | Self::Flags { size, .. } => {
                Some(*size)
            }
            Self::Bool => Some(1),
            Self::Pointer { .. } => Some(8),
            _ => None,
        }
    }

    /// Whether each part of it lies inside of what it is part of and has a fixed size, as it is with what the language makes.
    pub fn is_sound(&self) -> bool {
        self.is_sound_within(0)
    }

    fn is_sound_within(&self, depth: u32) -> bool {
        depth < DEPTH
            && match self {
                Self::Integer { size, .. } | Self::Enumeration { size, .. } | Self::Flags { size, .. } => {
                    matches!(size, 1 | 2 | 4 | 8)
                }
                Self::Array { element, count } => {
                    let size = element.fixed_size().checked_mul(*count);
                    size.is_some_and(|size| size <= Self::MAX) && element.is_sound_within(depth + 1)
                }
                Self::Composite(composite) => composite.size <= Self::MAX && composite.is_sound(depth),
                ty => !ty.is_variable() && ty.fixed_size() <= Self::MAX,
            }
    }
}
