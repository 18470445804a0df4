//! Values as what holds them: the type in which a variable, a map or a tuple keeps one, and the value made to fit.

use super::checker::{Checked, Checker};
use super::shape::{held_stack, is_named_number, join, join_integers};
use super::tree::{
    Access, Expr, ExprKind, Pointee, Pointer, Statement, StatementKind, TupleMember, TupleType, Type,
    VariableId,
};
use super::value::{constant, string_constant, widened};
use super::walk::MemoryPlace;
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Space;
use std::sync::Arc;

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
            Type::String { max } => Type::CharArray { size: max + 1 },
            Type::CharArray { .. } if matches!(value.kind, ExprKind::ConstantBytes(_)) => {
                let ExprKind::ConstantBytes(known) = &value.kind else {
                    return Ok(Type::CharArray { size: 1 });
                };
                Type::CharArray {
                    size: known.len() as u32 + 1,
                }
            }
            Type::CharArray { size } if *size > 0 => Type::CharArray { size: *size },
            Type::Memory { max } => Type::Buffer { max: *max },
            Type::Stack { space, max, mode } => held_stack(*space, *max, *mode),
            Type::Array { .. }
            | Type::Struct(..)
            | Type::Tuple(_)
            | Type::Named(_)
            | Type::Buffer { .. }
            | Type::HeldStack(_) => value.ty.clone(),
            // It need not be copied where frames are found at once.
            Type::StackCopy {
                shown: Some((mode, max)),
                ..
            } => held_stack(Space::User, *max, *mode),
            Type::StackCopy { shown: None, .. } => {
                let message = "frames are found in the copy of a stack where it is printed: it can be no value or key of a map, and no variable";
                let hint = "record it; in programs there are ustack, by frame pointers, and dw_ustack, by .eh_frame; kestrel record --call-graph dwarf counts stacks that are unwound";
                return Err(self.report(Diagnostic::error(value.span, message).hint(hint)));
            }
            ty => {
                let what = format!("{} in a variable or a map", self.describe(ty));
                return Err(self.not_yet(value.span, &what));
            }
        })
    }

    /// Whether one is a pointer to something and the other a number, which scripts do not mix.
    pub(crate) fn mixes_pointers(&self, held: &Type, stored: &Type) -> bool {
        match (held, stored) {
            (Type::Pointer(pointer), Type::Integer { .. })
            | (Type::Integer { .. }, Type::Pointer(pointer)) => {
                self.globals.infers_types && (pointer.to != Pointee::Unknown || pointer.levels > 0)
            }
            _ => false,
        }
    }

    /// A value as one of the type that holds it; `None` where it is of another kind.
    pub(crate) fn fitted_to(&mut self, value: Expr, ty: &Type) -> Option<Expr> {
        let span = value.span;
        Some(match (ty, &value.ty) {
            (Type::Pointer(to), Type::Pointer(from)) => {
                let plain = |p: &Pointer| p.to == Pointee::Unknown && p.levels == 0;
                let same = (to.to, to.levels) == (from.to, from.levels);
                let integers = self.globals.infers_types && to.leads_to_integers_as(from);
                let string = |p: &Pointer| matches!(p.to, Pointee::String { .. });
                let strings = to.levels == from.levels && string(to) && string(from);
                if !same && !plain(from) && !plain(to) && !integers && !strings {
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
            // In scripts a bool is no integer.
            (Type::Integer { .. }, Type::Bool) | (Type::Bool, Type::Integer { .. })
                if self.globals.infers_types =>
            {
                return None;
            }
            (Type::Integer { .. } | Type::Bool, from) if from.is_scalar() => {
                self.converted(value, ty.clone(), span)
            }
            (Type::CharArray { .. }, from) if from.is_string() => value,
            (Type::CharArray { .. }, from) if is_named_number(from) && self.globals.infers_types => {
                self.name_as_string(value)
            }
            (Type::Tuple(to), Type::Tuple(from)) if to.members.len() == from.members.len() => {
                if to == from {
                    return Some(value);
                }
                // Members go by their names; all are computed in the order in which they are written.
                let places = places_by_name(to, from)?;
                let (to, ordered) = (to.clone(), places.iter().copied().eq(0..places.len()));
                let kept = match ordered {
                    true => None,
                    false => self.kept_first(&value),
                };
                let (first, value) = kept.map_or((None, value), |(first, value)| (Some(first), value));
                let mut fitted = Vec::new();
                for (place, member) in places.into_iter().zip(&to.members) {
                    let part = self.tuple_part(&value, place, span)?;
                    fitted.push(self.fitted_to(part, &member.ty)?);
                }
                let whole = Expr::new(ExprKind::Tuple(fitted), ty.clone(), span);
                match first {
                    None => whole,
                    Some(first) => {
                        let kind = ExprKind::Sequence {
                            statements: vec![first],
                            value: Box::new(whole),
                        };
                        Expr::new(kind, ty.clone(), span)
                    }
                }
            }
            (to, from) if to == from => value,
            // Either is put where it is kept with zeroes behind it.
            (Type::Buffer { .. }, Type::Buffer { .. } | Type::Memory { .. }) => value,
            (Type::HeldStack(to), Type::HeldStack(from))
                if (to.space, to.mode) == (from.space, from.mode) =>
            {
                value
            }
            (Type::HeldStack(to), Type::Stack { space, mode, .. })
                if (to.space, to.mode) == (*space, *mode) =>
            {
                value
            }
            (
                Type::HeldStack(to),
                Type::StackCopy {
                    shown: Some(shown), ..
                },
            ) if (to.space, to.mode) == (Space::User, shown.0) => {
                let max = shown.1;
                self.globals.unwinds_in_kernel = true;
                self.globals.divides |= !self.globals.persistent;
                let ty = held_stack(Space::User, max, to.mode);
                Expr::new(ExprKind::Unwound { max }, ty, span)
            }
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
                let spot = MemoryPlace {
                    address: (**address).clone(),
                    offset: i64::from(*offset) + i64::from(member.offset),
                    access: *access,
                };
                self.value_at(spot, member.ty.clone(), span).ok()
            }
            _ => None,
        }
    }

    /// A member of any tuple: one that is computed (`({ …; (1, 2) }).0`) is kept first.
    pub(crate) fn part_of_tuple(&mut self, tuple: &Expr, place: usize, span: Span) -> Option<Expr> {
        if let Some(part) = self.tuple_part(tuple, place, span) {
            return Some(part);
        }
        let (first, kept) = self.kept_first(tuple)?;
        let part = self.tuple_part(&kept, place, span)?;
        let ty = part.ty.clone();
        let kind = ExprKind::Sequence {
            statements: vec![first],
            value: Box::new(part),
        };
        Some(Expr::new(kind, ty, span))
    }

    /// `(a, b)`, `(x = a, y = b)`.
    pub(crate) fn tuple(&mut self, parts: Vec<(String, Expr)>, span: Span) -> Checked<Expr> {
        let mut members = Vec::new();
        let mut values = Vec::new();
        for (name, part) in parts {
            let ty = self.holding(&part, false)?;
            let size = self.size_of(&ty).unwrap_or_default();
            let fitted = self.fitted_to(part.clone(), &ty).unwrap_or(part);
            let align = self.align_of(&ty, size);
            members.push((name, ty, size, align));
            values.push(fitted);
        }
        let ty = Type::Tuple(Arc::new(TupleType::new(members)));
        Ok(Expr::new(ExprKind::Tuple(values), ty, span))
    }

    /// The value that a type has before anything is stored.
    pub(crate) fn nothing(&mut self, ty: &Type, span: Span) -> Option<Expr> {
        Some(match ty {
            ty if ty.is_scalar() => constant(0, ty.clone(), span),
            Type::CharArray { .. } | Type::String { .. } => string_constant("", span),
            Type::Buffer { .. }
            | Type::HeldStack(_)
            | Type::Array { .. }
            | Type::Named(_)
            | Type::Struct(..) => Expr::new(ExprKind::ConstantBytes(Vec::new()), ty.clone(), span),
            Type::Tuple(tuple) => {
                let parts = tuple.members.iter().map(|member| self.nothing(&member.ty, span));
                let parts = parts.collect::<Option<Vec<_>>>()?;
                Expr::new(ExprKind::Tuple(parts), ty.clone(), span)
            }
            _ => return None,
        })
    }

    /// A value that is no scalar as bytes at an address: where it lies nowhere yet, a variable of its own keeps it.
    pub(crate) fn in_memory(&mut self, value: Expr) -> Expr {
        match self.kept_first(&value) {
            Some(kept) => Self::bytes_behind(kept, value),
            None => value,
        }
    }

    /// A string with room for as many bytes as a type has.
    pub(crate) fn with_room(&mut self, value: Expr, ty: Type) -> Option<Expr> {
        let kept = self.kept_as(&value, ty)?;
        Some(Self::bytes_behind(kept, value))
    }

    /// Bytes that a statement keeps, as one expression that begins with the statement.
    pub(super) fn bytes_behind((first, kept): (Statement, Expr), value: Expr) -> Expr {
        match kept.kind {
            ExprKind::Bytes {
                address,
                offset,
                size,
                access,
            } => {
                let span = value.span;
                let sequence = ExprKind::Sequence {
                    statements: vec![first],
                    value: address,
                };
                let kind = ExprKind::Bytes {
                    address: Box::new(Expr::new(sequence, Type::hexadecimal(8), span)),
                    offset,
                    size,
                    access,
                };
                Expr::new(kind, kept.ty, span)
            }
            _ => value,
        }
    }

    /// Statement that keeps a value in a variable of its own, and the value there; `None` where it lies in memory already, or cannot be kept.
    pub(crate) fn kept_first(&mut self, value: &Expr) -> Option<(Statement, Expr)> {
        if value.ty.is_scalar() || matches!(value.kind, ExprKind::Bytes { .. }) {
            return None;
        }
        let ty = self.holding(value, false).ok()?;
        self.kept_as(value, ty)
    }

    /// Statement that keeps a value in a variable of a type, and the value there; `None` where it does not fit.
    pub(super) fn kept_as(&mut self, value: &Expr, ty: Type) -> Option<(Statement, Expr)> {
        let (span, size) = (value.span, self.size_of(&ty)?);
        let value = self.fitted_to(value.clone(), &ty)?;
        let variable = self.hidden_variable("value", ty.clone());
        let kind = StatementKind::Set { variable, value };
        let address = Expr::new(ExprKind::VariableAddress(variable), Type::hexadecimal(8), span);
        let kept = ExprKind::Bytes {
            address: Box::new(address),
            offset: 0,
            size,
            access: Access::Context,
        };
        Some((Statement { kind, span }, Expr::new(kept, ty, span)))
    }

    /// Shape of the variable that is first set at a place, widened by a value's type; whether it had to grow.
    pub(super) fn variable_shape(&mut self, name: &str, declared: Span, ty: Type) -> Type {
        let key = self.variable_key(name, declared);
        let known = self.globals.shapes.variables.get(&key);
        let joined = match known {
            Some(known) => self.joined(known, &ty).unwrap_or_else(|| known.clone()),
            None => ty,
        };
        self.globals.shapes.variables.insert(key, joined.clone());
        joined
    }

    /// The type that holds values of both: outside of scripts an integer holds bools, too.
    pub(super) fn joined(&self, one: &Type, other: &Type) -> Option<Type> {
        let mixed = match (one, other) {
            (Type::Integer { .. }, Type::Bool) | (Type::Bool, Type::Integer { .. }) => {
                !self.globals.infers_types
            }
            _ => false,
        };
        match mixed {
            true => Some(join_integers(one, other)),
            false => join(one, other),
        }
    }

    /// Widens what is known of a variable by one more use of it.
    pub(super) fn widen_variable(&mut self, variable: VariableId, ty: Type) {
        let name = self.variables.get(variable.0 as usize).map(|v| v.name.clone());
        if let (Some(name), Some(declared)) = (name, self.declared.get(&variable).copied()) {
            let key = self.variable_key(&name, declared);
            self.globals.shapes.variables.insert(key, ty);
        }
    }

    /// Key of a variable in all rounds. Several may stand at one place: those of a macro that is called there.
    fn variable_key(&self, name: &str, declared: Span) -> (String, u32) {
        (format!("{}${name}", self.globals.text), declared.start)
    }
}

/// Where the members of one tuple are in another: of records by their names.
fn places_by_name(to: &TupleType, from: &TupleType) -> Option<Vec<usize>> {
    let place = |(at, wanted): (usize, &TupleMember)| match wanted.name.is_empty() {
        true => from
            .members
            .get(at)
            .filter(|member| member.name.is_empty())
            .map(|_| at),
        false => from.members.iter().position(|member| member.name == wanted.name),
    };
    to.members.iter().enumerate().map(place).collect()
}
