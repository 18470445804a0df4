//! What variables and maps hold, found over all their uses: each use widens it, and texts are checked again until nothing grows any more.

use super::checker::{Checked, Checker};
use super::tree::{Expr, ExprKind, Pointee, Pointer, Show, TupleMember, TupleType, Type};
use super::value::{constant, text_constant, widened};
use crate::lang::ast::Span;
use kestrel_trace::aggregate::Gathered;
use kestrel_trace::layout::Base;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a text is checked at most: each time something must have grown.
pub const ROUNDS: usize = 12;

/// What is known of a text's variables and maps from all of their uses so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shapes {
    /// Variables by the text they stand in and where they are first set.
    variables: BTreeMap<(String, u32), Type>,
    /// Maps by their names.
    pub(super) maps: BTreeMap<String, MapShape>,
}

/// What is known of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MapShape {
    /// Its keys; none while no use has said.
    pub(super) keys: Option<Vec<Type>>,
    /// What is stored in it.
    pub(super) value: Option<Stored>,
}

/// What a map is filled with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stored {
    Value(Type),
    Gathered(Gathered),
}

/// The type that holds values of both; `None` where there is none.
pub(super) fn join(a: &Type, b: &Type) -> Option<Type> {
    if a == b {
        return Some(a.clone());
    }
    Some(match (a, b) {
        (Type::Integer { .. } | Type::Bool, Type::Integer { .. } | Type::Bool) => join_integers(a, b),
        (Type::Text { size: a }, Type::Text { size: b }) => Type::Text { size: *a.max(b) },
        (Type::Pointer(a), Type::Pointer(b)) => {
            let same = (a.to, a.levels, a.space) == (b.to, b.levels, b.space);
            let plain = |p: &Pointer| p.to == Pointee::Unknown && p.levels == 0;
            Type::Pointer(match same {
                true => Pointer {
                    trusted: false,
                    symbolic: a.symbolic && b.symbolic,
                    ..*a
                },
                false if plain(a) && a.space == b.space => Pointer { trusted: false, ..*b },
                false if plain(b) && a.space == b.space => Pointer { trusted: false, ..*a },
                false => return None,
            })
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.members.len() == b.members.len() => {
            let members = a.members.iter().zip(&b.members);
            let members = members.map(|(a, b)| {
                (a.name == b.name).then_some(())?;
                Some((a.name.clone(), join(&a.ty, &b.ty)?, 0))
            });
            let members = members.collect::<Option<Vec<_>>>()?;
            if members.iter().any(|(_, ty, _)| own_size(ty).is_none()) {
                return Some(Type::Tuple(a.clone())).filter(|_| a == b);
            }
            Type::Tuple(Arc::new(TupleType::new(members.into_iter().map(
                |(name, ty, _)| {
                    let size = own_size(&ty).unwrap_or_default();
                    (name, ty, size)
                },
            ))))
        }
        (Type::Stack { space: a, max: m }, Type::Stack { space: b, max: n }) if a == b => Type::Stack {
            space: *a,
            max: *m.max(n),
        },
        _ => return None,
    })
}

fn join_integers(a: &Type, b: &Type) -> Type {
    let shape = |ty: &Type| match ty {
        Type::Integer { size, signed, show } => (*size, *signed, show.clone()),
        _ => (1, false, Show::Number(Base::Decimal)),
    };
    let ((a_size, a_signed, a_show), (b_size, b_signed, b_show)) = (shape(a), shape(b));
    let signed = a_signed || b_signed;
    // An unsigned number needs a larger signed one to fit.
    let own = |size: u8, own: bool| match signed && !own {
        true => (size * 2).min(8),
        false => size,
    };
    Type::Integer {
        size: own(a_size, a_signed).max(own(b_size, b_signed)),
        signed,
        show: match a_show == b_show {
            true => a_show,
            false => Show::Number(Base::Decimal),
        },
    }
}

/// The size of a type that says it itself.
fn own_size(ty: &Type) -> Option<u32> {
    Some(match ty {
        Type::Integer { size, .. } => u32::from(*size),
        Type::Bool => 1,
        Type::Pointer(_) => 8,
        Type::Text { size } => *size,
        Type::Tuple(tuple) => tuple.size,
        Type::Named(named) => named.shape().0,
        Type::Array { element, count } => own_size(element)?.checked_mul(*count)?,
        _ => return None,
    })
}

/// What the offset of a value is a multiple of.
fn alignment(ty: &Type, size: u32) -> u32 {
    match ty {
        Type::Text { .. } => 1,
        Type::Tuple(tuple) => tuple.align,
        Type::Named(named) => named.shape().1,
        Type::Array { element, .. } => alignment(element, own_size(element).unwrap_or(8)),
        _ if size.is_power_of_two() => size.min(8),
        _ => 8,
    }
}

impl TupleType {
    /// Members with their sizes, one behind the other, as C places them.
    pub(crate) fn new(members: impl IntoIterator<Item = (String, Type, u32)>) -> Self {
        let (mut end, mut align) = (0_u32, 1);
        let members = members.into_iter().map(|(name, ty, size)| {
            let own = alignment(&ty, size);
            let offset = end.next_multiple_of(own);
            (end, align) = (offset + size, align.max(own));
            TupleMember {
                name,
                ty,
                offset,
                size,
            }
        });
        let members = members.collect();
        Self {
            members,
            size: end.next_multiple_of(align),
            align,
        }
    }
}

impl Checker<'_> {
    /// The type in which a variable, a map or a tuple holds a value; `wide` numbers take 8 bytes.
    pub(crate) fn holding(&mut self, value: &Expr, wide: bool) -> Checked<Type> {
        Ok(match &value.ty {
            Type::Pointer(pointer) => Type::Pointer(Pointer {
                trusted: false,
                ..*pointer
            }),
            Type::Bool => Type::Bool,
            ty if ty.is_scalar() && wide => widened(value.clone()).ty,
            ty if ty.is_scalar() => ty.clone(),
            Type::String { max } => Type::Text { size: max + 1 },
            Type::Text { .. } if matches!(value.kind, ExprKind::Text(_)) => {
                let ExprKind::Text(known) = &value.kind else {
                    return Ok(Type::Text { size: 1 });
                };
                Type::Text {
                    size: known.len() as u32 + 1,
                }
            }
            Type::Text { size } if *size > 0 => Type::Text { size: *size },
            Type::Array { .. } | Type::Struct(_) | Type::Tuple(_) | Type::Named(_) => value.ty.clone(),
            ty => {
                let what = format!("{} in a variable or a map", self.describe(ty));
                return Err(self.not_yet(value.span, &what));
            }
        })
    }

    /// A value as one of the type that holds it; `None` where it is of another kind.
    pub(crate) fn fitted_to(&mut self, value: Expr, ty: &Type) -> Option<Expr> {
        let span = value.span;
        Some(match (ty, &value.ty) {
            (Type::Pointer(to), Type::Pointer(from)) => {
                let plain = |p: &Pointer| p.to == Pointee::Unknown && p.levels == 0;
                if (to.to, to.levels) != (from.to, from.levels) && !plain(from) && !plain(to) {
                    return None;
                }
                Expr {
                    ty: ty.clone(),
                    ..value
                }
            }
            (Type::Pointer(_), Type::Integer { .. }) => Expr {
                ty: ty.clone(),
                ..value
            },
            (Type::Integer { .. } | Type::Bool, from) if from.is_scalar() => {
                self.converted(value, ty.clone(), span)
            }
            (Type::Text { .. }, from) if from.is_text() => value,
            (Type::Tuple(to), Type::Tuple(from)) if to.members.len() == from.members.len() => {
                if to == from {
                    return Some(value);
                }
                let parts: Vec<Expr> = (0..to.members.len())
                    .map(|place| self.tuple_part(&value, place, span))
                    .collect::<Option<_>>()?;
                let fitted: Vec<Expr> = parts
                    .into_iter()
                    .zip(&to.members)
                    .map(|(part, member)| self.fitted_to(part, &member.ty))
                    .collect::<Option<_>>()?;
                Expr::new(ExprKind::Tuple(fitted), ty.clone(), span)
            }
            (to, from) if to == from => value,
            _ => return None,
        })
    }

    /// A member of a tuple by its place.
    pub(crate) fn tuple_part(&mut self, tuple: &Expr, place: usize, span: Span) -> Option<Expr> {
        let Type::Tuple(ty) = &tuple.ty else { return None };
        let member = ty.members.get(place)?;
        match &tuple.kind {
            ExprKind::Tuple(parts) => parts.get(place).cloned(),
            ExprKind::Bytes {
                address,
                offset,
                access,
                ..
            } => {
                let spot = super::walk::Spot {
                    address: (**address).clone(),
                    offset: i64::from(*offset) + i64::from(member.offset),
                    access: *access,
                };
                self.value_at(spot, member.ty.clone(), span).ok()
            }
            _ => None,
        }
    }

    /// `(a, b)`, `(x = a, y = b)`.
    pub(crate) fn tuple(&mut self, parts: Vec<(String, Expr)>, span: Span) -> Checked<Expr> {
        let mut members = Vec::new();
        let mut values = Vec::new();
        for (name, part) in parts {
            let ty = self.holding(&part, false)?;
            let size = self.size_of(&ty).unwrap_or_default();
            let fitted = self.fitted_to(part.clone(), &ty).unwrap_or(part);
            members.push((name, ty, size));
            values.push(fitted);
        }
        let ty = Type::Tuple(Arc::new(TupleType::new(members)));
        Ok(Expr::new(ExprKind::Tuple(values), ty, span))
    }

    /// The value that a type has before anything is stored.
    pub(crate) fn nothing(&mut self, ty: &Type, span: Span) -> Option<Expr> {
        Some(match ty {
            ty if ty.is_scalar() => constant(0, ty.clone(), span),
            Type::Text { .. } | Type::String { .. } => text_constant("", span),
            Type::Tuple(tuple) => {
                let parts = tuple.members.iter().map(|member| self.nothing(&member.ty, span));
                let parts = parts.collect::<Option<Vec<_>>>()?;
                Expr::new(ExprKind::Tuple(parts), ty.clone(), span)
            }
            _ => return None,
        })
    }

    /// What is known of the variable that is first set at a place, widened by a value's type; whether it had to grow.
    pub(super) fn variable_shape(&mut self, declared: Span, ty: Type) -> Type {
        let key = (self.globals.text.clone(), declared.start);
        let known = self.globals.shapes.variables.get(&key);
        let joined = match known {
            Some(known) => join(known, &ty).unwrap_or_else(|| known.clone()),
            None => ty,
        };
        self.globals.shapes.variables.insert(key, joined.clone());
        joined
    }

    /// Widens what is known of a variable by one more use of it.
    pub(super) fn widen_variable(&mut self, declared: Span, ty: Type) {
        let key = (self.globals.text.clone(), declared.start);
        self.globals.shapes.variables.insert(key, ty);
    }
}
