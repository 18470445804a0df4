//! Types of values as they lie in records and maps: [`Type`] as [`FieldType`].

use crate::check::checker::Checker;
use crate::check::tree::{Show, TupleMember, Type};
use crate::check::types::kernel::is_wide;
use kestrel_bpf::btf::{self, TypeId};
use kestrel_trace::layout::{Bits, Composite, CompositeKind, FieldType, Member};
use std::sync::Arc;

impl<'a> Checker<'a> {
    /// The type of a value that lies somewhere in a fixed number of bytes; `None` for what cannot be kept.
    pub(crate) fn kept_type(&mut self, ty: &Type) -> Option<FieldType> {
        self.kept_type_at(ty, 0)
    }

    fn kept_type_at(&mut self, ty: &Type, depth: u8) -> Option<FieldType> {
        if depth > 8 {
            return None;
        }
        Some(match ty {
            Type::Array { element, count } => FieldType::Array {
                element: Box::new(self.kept_type_at(element, depth + 1)?),
                count: *count,
            },
            Type::Tuple(tuple) => {
                let mut member = |member: &TupleMember| {
                    Some(Member {
                        name: member.name.clone(),
                        offset: member.offset,
                        bits: None,
                        ty: self.kept_type_at(&member.ty, depth + 1)?,
                    })
                };
                let named = tuple.members.iter().any(|member| !member.name.is_empty());
                FieldType::Composite(Arc::new(Composite {
                    kind: match named {
                        true => CompositeKind::Record,
                        false => CompositeKind::Tuple,
                    },
                    size: tuple.size,
                    align: tuple.align,
                    members: tuple.members.iter().map(&mut member).collect::<Option<_>>()?,
                }))
            }
            Type::Struct(id, _) => self.kept_struct(*id, depth)?,
            ty => Self::field_type(ty).filter(|ty| !ty.is_variable())?,
        })
    }

    /// A struct or union of BTF.
    fn kept_struct(&mut self, id: TypeId, depth: u8) -> Option<FieldType> {
        let btf = self.btf()?;
        let size = u32::try_from(btf.size_of(id)?).ok()?;
        let union = matches!(btf.resolved(id), btf::Type::Union(_));
        let mut members = Vec::new();
        for member in btf.composite(id)?.members() {
            // A member without values here is left out: its bytes are there all the same.
            let Some(ty) = self.btf_type(member.ty) else {
                continue;
            };
            let Some(ty) = self.kept_type_at(&ty, depth + 1) else {
                continue;
            };
            let bit_offset = member.bit_offset;
            let bits = member.bits;
            // A field of bits in 128 may lie across two words.
            if bits.is_some() && is_wide(btf, member.ty) {
                continue;
            }
            let (offset, bits) = match bits {
                None => (bit_offset / 8, None),
                Some(width) => {
                    let unit = u32::from(ty.integer_size()?) * 8;
                    let start = bit_offset / unit * unit;
                    let bits = Bits {
                        first: u8::try_from(bit_offset - start).ok()?,
                        width: u8::try_from(width).ok()?,
                    };
                    (start / 8, Some(bits))
                }
            };
            match &ty {
                // Members of a part without a name are the struct's own.
                FieldType::Composite(part) if member.name.is_empty() => {
                    members.extend(part.members.iter().map(|member| Member {
                        offset: offset + member.offset,
                        ..member.clone()
                    }));
                }
                _ => members.push(Member {
                    name: member.name.to_owned(),
                    offset,
                    bits,
                    ty,
                }),
            }
        }
        let align = [8, 4, 2, 1]
            .into_iter()
            .find(|align| size.is_multiple_of(*align))
            .unwrap_or(1);
        Some(FieldType::Composite(Arc::new(Composite {
            kind: match union {
                true => CompositeKind::Union,
                false => CompositeKind::Struct,
            },
            size,
            align,
            members,
        })))
    }

    /// The type of a record's field; `None` for what cannot be recorded.
    pub(crate) fn field_type(ty: &Type) -> Option<FieldType> {
        Some(match ty {
            Type::Integer { size, signed, show } => {
                let (size, signed) = (*size, *signed);
                match show {
                    Show::Number(_) | Show::Natural => FieldType::Integer {
                        size,
                        signed,
                        base: show.base(),
                    },
                    Show::Names(names) => FieldType::Enumeration {
                        size,
                        signed,
                        names: names.clone(),
                    },
                    Show::Flags(names) => FieldType::Flags {
                        size,
                        names: names.clone(),
                    },
                }
            }
            Type::Bool => FieldType::Bool,
            Type::Pointer(pointer) => FieldType::Pointer {
                symbolic: pointer.symbolic,
            },
            Type::CharArray { size } if *size > 0 => FieldType::CharArray { size: *size },
            Type::String { max } => FieldType::String { max: *max },
            Type::Memory { max } => FieldType::Bytes { max: *max },
            Type::Array { element, count } if *count > 0 => FieldType::Array {
                element: Box::new(Self::field_type(element)?),
                count: *count,
            },
            Type::Stack { space, max, .. } => FieldType::Stack {
                space: *space,
                max: *max,
            },
            // A definition without a size has it once all its fields are known.
            Type::StackCopy { max, shown } => FieldType::StackCopy {
                max: max.unwrap_or_default(),
                shown: *shown,
            },
            Type::CharArray { .. } | Type::Array { .. } | Type::Struct(..) | Type::Tuple(_) => return None,
            Type::Named(named) => FieldType::Named(named.clone()),
            Type::Buffer { max } => FieldType::Buffer { max: *max },
            Type::HeldStack(stack) => FieldType::HeldStack(*stack),
        })
    }
}
