//! Keys of maps: their types as they are kept, and that every use of a map has the same.

use super::content::{scalar_type, string_size};
use crate::check::checker::{Checked, Checker, Reported};
use crate::check::shape::{is_function_number, join};
use crate::check::tree::{Expr, ExprKind, Intrinsic, Pointer, Type};
use crate::check::value::{room, widened};
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::layout::{EventName, FieldType, Frames, HeldStack, Space, StackMode};

const SAME_KEYS: &str = "all uses of a map have the same keys: keep this in another map";

impl Checker<'_> {
    /// A key with its type in the map.
    pub(super) fn map_key(&mut self, key: &ast::Expr) -> Checked<(FieldType, Expr)> {
        let value = self.key_value(key)?;
        self.key_of(value, key.span)
    }

    fn key_of(&mut self, value: Expr, span: Span) -> Checked<(FieldType, Expr)> {
        if value.ty.is_scalar() {
            return Ok((scalar_type(&value.ty), value));
        }
        if value.ty.is_string() {
            return Ok((
                FieldType::CharArray {
                    size: string_size(&value),
                },
                value,
            ));
        }
        match value.ty {
            Type::Stack { space, max, .. } if !self.globals.infers_types => {
                return Ok((FieldType::Stack { space, max }, value));
            }
            // The kernel keeps build ids in tables of another kind.
            Type::Stack { space, max, mode } if mode != StackMode::BuildId => {
                let held = HeldStack {
                    space,
                    max,
                    mode,
                    frames: Frames::Numbered,
                };
                return Ok((FieldType::HeldStack(held), value));
            }
            _ => {}
        }
        let ty = self.holding(&value, false)?;
        let fitted = self.fitted_to(value.clone(), &ty).unwrap_or(value);
        match self.kept_type(&ty) {
            Some(kept) => Ok((kept, fitted)),
            None => {
                let message = format!("{} as a key of a map", self.describe(&ty));
                Err(self.not_yet(span, &message))
            }
        }
    }

    /// The parts of a key that is a tuple in a variable or a map.
    pub(super) fn parts_of_key(&mut self, key: &ast::Expr) -> Option<Vec<Checked<(FieldType, Expr)>>> {
        let worth = matches!(
            key.kind,
            ast::ExprKind::Variable(_) | ast::ExprKind::Member { .. }
        );
        let value = worth.then(|| self.expression(key).ok())??;
        let Type::Tuple(ty) = &value.ty else { return None };
        // A record is one key, written out or not.
        if ty.members.iter().any(|member| !member.name.is_empty()) {
            return None;
        }
        let parts = (0..ty.members.len()).map(|place| {
            let part = self.tuple_part(&value, place, key.span).ok_or(Reported)?;
            self.key_of(part, key.span)
        });
        Some(parts.collect())
    }

    /// Layout of a key of a type in a map.
    pub(super) fn kept_key(&mut self, ty: &Type) -> Option<FieldType> {
        Some(match ty {
            Type::CharArray { size } => FieldType::CharArray {
                size: size.next_multiple_of(8),
            },
            ty if ty.is_scalar() => scalar_type(ty),
            Type::Stack { space, max, mode } if *mode != StackMode::BuildId => {
                FieldType::HeldStack(HeldStack {
                    space: *space,
                    max: *max,
                    mode: *mode,
                    frames: Frames::Numbered,
                })
            }
            ty => self.kept_type(ty)?,
        })
    }

    /// Keys as all uses of a map together want them.
    pub(super) fn key_shape(
        &mut self,
        name: &str,
        types: Vec<FieldType>,
        keys: Vec<Expr>,
        span: Span,
    ) -> Checked<(Vec<FieldType>, Vec<Expr>)> {
        let own: Vec<Type> = keys.iter().map(key_type).collect();
        let narrow: Vec<Type> = keys.iter().map(narrow_type).collect();
        let shape = self.globals.shapes.maps.entry(name.to_owned()).or_default();
        let expected = shape.narrow.clone().unwrap_or_else(|| narrow.clone());
        let wider = expected
            .iter()
            .zip(&narrow)
            .map(|(known, own)| join(known, own).unwrap_or_else(|| known.clone()));
        let held: Vec<Type> = match expected.len() == narrow.len() {
            true => wider.collect(),
            false => expected.clone(),
        };
        shape.narrow = Some(held.clone());
        let joined: Vec<Type> = match &shape.keys {
            Some(known) if known.len() == own.len() => known
                .iter()
                .zip(&own)
                .map(|(known, own)| join(known, own).unwrap_or_else(|| known.clone()))
                .collect(),
            // A wrong number of keys is reported by the check of the map itself.
            Some(_) => return Ok((types, keys)),
            None => own,
        };
        shape.keys = Some(joined.clone());
        for (key, held) in keys.iter().zip(&held) {
            self.warn_of_implicit_cast(key, held);
        }
        let mut fitted = (Vec::new(), Vec::new());
        for ((ty, key), joined) in types.into_iter().zip(keys).zip(joined) {
            let key = match joined.is_string() {
                true => self.name_as_string(key),
                false => key,
            };
            let (ty, key) = match &joined {
                Type::CharArray { size } if key.ty.is_string() => (
                    FieldType::CharArray {
                        size: size.next_multiple_of(8),
                    },
                    key,
                ),
                Type::Stack { space, mode, .. }
                    if *mode != StackMode::BuildId && is_stack_of(&key.ty, *space, *mode) =>
                {
                    (ty, key)
                }
                // Other handlers of the map have no address of it.
                joined if is_function_number(joined) && is_function_address(&key) => (
                    scalar_type(joined),
                    self.event_number(EventName::Function, key.span),
                ),
                joined
                    if joined.is_scalar()
                        && key.ty.is_scalar()
                        && (*joined == Type::Bool) == (key.ty == Type::Bool) =>
                {
                    (scalar_type(joined), key)
                }
                joined => {
                    let Some(fits) = self.fitted_to(key.clone(), joined) else {
                        self.globals.shapes.notes_read(joined);
                        self.globals.shapes.notes_read(&key.ty);
                        let message = argument_mismatch(
                            &format!("@{name}"),
                            &self.spelled_keys(&narrow),
                            &self.spelled_keys(&expected),
                        );
                        return Err(self.report(Diagnostic::error(span, message).hint(SAME_KEYS)));
                    };
                    (self.kept_type(joined).unwrap_or(ty), fits)
                }
            };
            fitted.0.push(ty);
            fitted.1.push(key);
        }
        Ok(fitted)
    }

    pub(super) fn agree_on_keys(&mut self, map: &MapType, keys: &[Expr], span: Span) -> Checked<()> {
        if map.keys.len() != keys.len() {
            if let Some(message) = self.other_keys(map, keys) {
                return Err(self.report(Diagnostic::error(span, message).hint(SAME_KEYS)));
            }
            let count = |n: usize| match n {
                0 => "no key".to_owned(),
                1 => "one key".to_owned(),
                n => format!("{n} keys"),
            };
            let message = format!(
                "{} has {} here, but {} since its first use in {}",
                map.title(),
                count(keys.len()),
                count(map.keys.len()),
                map.first
            );
            return Err(self.report(Diagnostic::error(span, message).hint(SAME_KEYS)));
        }
        for (ty, key) in map.keys.iter().zip(keys) {
            let agreed = match ty {
                FieldType::CharArray { size } => key.ty.is_string() && room(key) <= *size,
                FieldType::Stack { space, max } => {
                    matches!(&key.ty, Type::Stack { space: own, max: most, .. } if own == space && most == max)
                }
                FieldType::Composite(_)
                | FieldType::Array { .. }
                | FieldType::Named(_)
                | FieldType::Buffer { .. }
                | FieldType::HeldStack(_) => !key.ty.is_scalar() && !key.ty.is_string(),
                _ => key.ty.is_scalar(),
            };
            // In scripts the next round gives all keys the room of the longest string.
            let grows = self.globals.infers_types && key.ty.is_string();
            if !agreed && !grows {
                let message = format!(
                    "this key is {}, but {} in the first use of {} in {}",
                    self.in_words(key),
                    words(ty),
                    map.title(),
                    map.first
                );
                return Err(self.error(key.span, message));
            }
        }
        Ok(())
    }

    /// Message, in scripts, for a use of a map with another number of keys than it has.
    fn other_keys(&self, map: &MapType, keys: &[Expr]) -> Option<String> {
        if !self.globals.infers_types {
            return None;
        }
        let title = map.title();
        Some(match (map.keys.is_empty(), keys.is_empty()) {
            (true, _) => format!(
                "{title} used as a map with an explicit key (non-scalar map), previously used without an explicit key (scalar map)"
            ),
            (_, true) => format!(
                "{title} used as a map without an explicit key (scalar map), previously used with an explicit key (non-scalar map)"
            ),
            _ => {
                let own: Vec<Type> = keys.iter().map(narrow_type).collect();
                let expected = self.globals.shapes.maps.get(&map.name)?.narrow.clone()?;
                argument_mismatch(&title, &self.spelled_keys(&own), &self.spelled_keys(&expected))
            }
        })
    }

    /// Types of keys in the language's words.
    fn spelled_keys(&self, keys: &[Type]) -> String {
        let words: Vec<String> = keys.iter().map(|key| self.spelled_type(key).1).collect();
        match words.as_slice() {
            [only] => only.clone(),
            words => format!("({})", words.join(",")),
        }
    }

    fn in_words(&self, key: &Expr) -> String {
        match &key.ty {
            Type::CharArray { .. } | Type::String { .. } => format!("a string of up to {} bytes", room(key)),
            ty => self.describe(ty),
        }
    }
}

/// The words that scripts' tests know.
fn argument_mismatch(title: &str, own: &str, expected: &str) -> String {
    format!(
        "Argument mismatch for {title}: trying to access with arguments: '{own}' when map expects arguments: '{expected}'"
    )
}

/// Whether a type is that of stacks of one side, kernel or user, in one mode.
fn is_stack_of(ty: &Type, space: Space, mode: StackMode) -> bool {
    match ty {
        Type::Stack {
            space: own,
            mode: form,
            ..
        } => (*own, *form) == (space, mode),
        Type::HeldStack(held) => (held.space, held.mode) == (space, mode),
        _ => false,
    }
}

fn is_function_address(key: &Expr) -> bool {
    matches!(key.kind, ExprKind::Intrinsic(Intrinsic::FunctionAddress))
}

/// The type of a key as it is kept.
fn key_type(key: &Expr) -> Type {
    match &key.ty {
        Type::String { max } => Type::CharArray { size: max + 1 },
        Type::CharArray { .. } => match &key.kind {
            ExprKind::ConstantBytes(known) => Type::CharArray {
                size: known.len() as u32 + 1,
            },
            _ => key.ty.clone(),
        },
        Type::Pointer(pointer) => Type::Pointer(Pointer {
            trusted: false,
            ..*pointer
        }),
        ty if ty.is_scalar() => widened(key.clone()).ty,
        Type::Memory { max } => Type::Buffer { max: *max },
        ty => ty.clone(),
    }
}

/// The smallest type that a key has.
fn narrow_type(key: &Expr) -> Type {
    match &key.ty {
        Type::Integer { .. } => key.ty.clone(),
        _ => key_type(key),
    }
}

/// Keys; those of a tuple one by one.
pub(super) fn flat<'a>(keys: &[&'a ast::Expr]) -> Vec<&'a ast::Expr> {
    match keys {
        [
            ast::Expr {
                kind: ast::ExprKind::Tuple(parts),
                ..
            },
        ] => parts.iter().collect(),
        keys => keys.to_vec(),
    }
}

fn words(ty: &FieldType) -> String {
    match ty {
        FieldType::CharArray { size } => format!("a string of up to {size} bytes"),
        FieldType::Stack {
            space: Space::Kernel,
            max,
        } => format!("kstack({max})"),
        FieldType::Stack { max, .. } => format!("ustack({max})"),
        _ => "a number".to_owned(),
    }
}
