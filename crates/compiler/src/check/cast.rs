//! Casts: a scalar as another, bytes as an array, an array as a number.

use super::checker::{Checked, Checker, Reported};
use super::tree::{Access, CompareOp, Expr, ExprKind, Pointee, Show, Type};
use super::value::{comparison, constant, is_literal, narrowed};
use super::walk::MemoryPlace;
use crate::lang::ast::{self, Span, TypeName};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Space;

/// Whether a word is an argument by number: `arg0`.
fn is_argument(word: &str) -> bool {
    let number = word.strip_prefix("arg");
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// The place of a cast's type with the brackets around it.
fn with_brackets(ty: Span, cast: Span) -> Span {
    match cast.start < ty.start && ty.end < cast.end {
        true => Span {
            start: cast.start,
            end: ty.end + 1,
        },
        false => ty,
    }
}

impl Checker<'_> {
    /// Warns of a cast to the type that a value has already.
    fn warn_of_cast(
        &mut self,
        ty: &Type,
        operand: &ast::Expr,
        value: &Expr,
        (type_span, span): (Span, Span),
    ) {
        use ast::ExprKind as Kind;
        // Of values of maps and fields only the width is known. Parameters and return values of functions have a type of their own only where
        // debug information is there, and never in bpftrace, whose programs cast it.
        let known = match &operand.kind {
            Kind::Variable(_) | Kind::Cast { .. } | Kind::Integer { .. } => true,
            Kind::Unary {
                op: ast::UnaryOp::Negate,
                value,
            } => matches!(value.kind, Kind::Integer { .. }),
            Kind::Identifier(word) => word != "retval" && !is_argument(word),
            _ => false,
        };
        let same = match (ty, &value.ty) {
            (
                Type::Integer { size, signed, .. },
                Type::Integer {
                    size: own,
                    signed: own_sign,
                    show,
                },
            ) => (size, signed) == (own, own_sign) && matches!(show, Show::Natural | Show::Number(_)),
            (Type::Pointer(to), Type::Pointer(from)) => {
                to.to != Pointee::Unknown && (to.to, to.levels) == (from.to, from.levels)
            }
            _ => false,
        };
        // A cast in one of the library's macros has the span of the call, which encloses the argument: its user wrote no cast.
        let is_written_here = type_span.end <= operand.span.start || operand.span.end <= type_span.start;
        if known && same && is_written_here && self.globals.infers_types {
            let (_, spelled) = self.spelled_type(ty);
            let message = format!("Unnecessary cast: expression is already of type {spelled}");
            self.report(Diagnostic::warning(with_brackets(type_span, span), message));
        }
    }

    /// Reports a cast that does not exist.
    fn no_cast(&mut self, value: &Expr, ty: &Type, span: Span, hint: Option<String>) -> Reported {
        let (from, to) = (self.spelled_value(value), self.spelled_type(ty).1);
        let message = format!("Cannot cast from \"{from}\" to \"{to}\"");
        self.report(Diagnostic::error(span, message).maybe_hint(hint))
    }

    /// Checks a cast, `(TYPE)value`.
    pub(super) fn cast(&mut self, ty: &TypeName, operand: &ast::Expr, span: Span) -> Checked<Expr> {
        let value = self.operand(operand);
        let ty_written = match (ty.plain(), &value) {
            // The array has as many elements as the value has bytes for.
            (Some((0, arrays)), Ok(value)) if arrays == [None] => self.array_over(ty, value),
            _ => self.written_type(ty),
        };
        let (ty_written, value) = (ty_written?, value?);
        if let Type::Array { .. } | Type::CharArray { .. } = &ty_written {
            return self.cast_to_array(ty_written, value, ty.span, span);
        }
        if ty_written.is_scalar()
            && !matches!(ty_written, Type::Pointer(_))
            && let Type::Array { .. } = value.ty
        {
            return self.cast_of_array(value, ty_written, span);
        }
        if !ty_written.is_scalar() {
            let message = format!("a value cannot be cast to {}", self.describe(&ty_written));
            let hint =
                matches!(ty_written, Type::Struct(..)).then(|| format!("cast an address: ({} *)…", ty.name));
            let mut wrong = Diagnostic::error(ty.span, message).maybe_hint(hint);
            if matches!(
                ty_written,
                Type::Struct(..) | Type::String { .. } | Type::CharArray { .. }
            ) {
                let (from, to) = (self.spelled_value(&value), self.spelled_type(&ty_written).1);
                wrong.know_as(span, || format!("Cannot cast from \"{from}\" to \"{to}\""));
            }
            return Err(self.report(wrong));
        }
        if let (Type::Bool, ExprKind::ConstantBytes(known)) = (&ty_written, &value.kind)
            && self.globals.infers_types
        {
            return Ok(constant(u64::from(!known.is_empty()), Type::Bool, span));
        }
        if let Type::Pointer(_) = ty_written
            && value.ty.is_string()
        {
            // A string stands for the address of its first byte, as in C.
            let kept = self.in_memory(value);
            let address = self.address_of(kept, span)?;
            return Ok(self.converted(address, ty_written, span));
        }
        if !value.ty.is_scalar() {
            return Err(self.no_cast(&value, &ty_written, with_brackets(ty.span, span), None));
        }
        if let (
            Type::Integer {
                show: Show::Names(names),
                ..
            },
            Some(number),
        ) = (&ty_written, value.constant())
            && self.globals.infers_types
            && !names.iter().any(|(known, _)| *known == number.cast_signed())
        {
            let number = number.cast_signed();
            let message = format!("Enum: {} doesn't contain a variant value of {number}", ty.name);
            let known: Vec<String> = names
                .iter()
                .take(4)
                .map(|(value, name)| format!("{name} is {value}"))
                .collect();
            let hint = format!(
                "{}; a number that is not known here is shown as it is",
                known.join(", ")
            );
            return Err(self.report(Diagnostic::error(value.span, message).hint(hint)));
        }
        self.warn_of_cast(&ty_written, operand, &value, (ty.span, span));
        Ok(self.converted(value, ty_written, span))
    }

    /// `TYPE[]`, of as many elements as a value has bytes for.
    fn array_over(&mut self, name: &TypeName, value: &Expr) -> Checked<Type> {
        let mut element = name.clone();
        element.suffixes.clear();
        let element = self.written_type(&element)?;
        let (whole, one) = match &value.kind {
            ExprKind::ConstantBytes(known) if self.globals.infers_types => {
                (u32::try_from(known.len() + 1).ok(), self.size_of(&element))
            }
            _ => (self.size_of(&value.ty), self.size_of(&element)),
        };
        match (whole, one) {
            (Some(whole), Some(one)) if one > 0 && whole >= one => Ok(Type::Array {
                element: Box::new(element),
                count: whole / one,
            }),
            _ => Err(self.error(name.span, "how many elements this array has is not known")),
        }
    }

    /// `(int8[8])value`: the bytes of a scalar, or of an array of as many bytes.
    fn cast_to_array(&mut self, ty: Type, value: Expr, type_span: Span, span: Span) -> Checked<Expr> {
        let size = self.size_of(&ty).unwrap_or_default();
        let has = self.size_of(&value.ty).unwrap_or_default();
        let ends = self.globals.infers_types && matches!(value.kind, ExprKind::ConstantBytes(_));
        let fits = match value.ty.is_scalar() {
            // A number that is known now has as many bytes as are asked of it.
            true => match self.globals.infers_types && !is_literal(&value) {
                // Of a number with a type of its own all bytes are asked for.
                true => size == has,
                false => size <= has || value.constant().is_some() && size <= 8,
            },
            false => size == has || ends && size == has + 1,
        };
        if let Type::CharArray { .. } = ty
            && value.ty.is_string()
            && size > has
            && self.globals.infers_types
            && let Some(roomier) = self.with_room(value.clone(), ty.clone())
        {
            return Ok(Expr { ty, span, ..roomier });
        }
        if !fits {
            let hint = match value.ty.is_scalar() && self.globals.infers_types {
                true => format!("it has {has} bytes, all of which are (uint8[{has}])…"),
                false => format!("it has {has} bytes, and that type {size}"),
            };
            return Err(self.no_cast(&value, &ty, with_brackets(type_span, span), Some(hint)));
        }
        match value.kind {
            // The NUL behind a text in quotes is one of its bytes.
            ExprKind::ConstantBytes(mut known) => {
                known.resize(size as usize, 0);
                Ok(Expr::new(ExprKind::ConstantBytes(known), ty, span))
            }
            ExprKind::Bytes { .. } => Ok(Expr { ty, span, ..value }),
            _ if value.ty.is_scalar() => {
                let address = Expr::new(ExprKind::FrameWords(vec![value]), Type::hexadecimal(8), span);
                let kind = ExprKind::Bytes {
                    address: Box::new(address),
                    offset: 0,
                    size,
                    access: Access::Context,
                };
                Ok(Expr::new(kind, ty, span))
            }
            _ => Err(self.no_cast(&value, &ty, with_brackets(type_span, span), None)),
        }
    }

    /// `(uint32)array`: its bytes as a number.
    fn cast_of_array(&mut self, value: Expr, ty: Type, span: Span) -> Checked<Expr> {
        let size = self.size_of(&ty).unwrap_or_default();
        if self.size_of(&value.ty) != Some(size) {
            let hint =
                "they take different numbers of bytes; its elements are numbers of their own: array[0]";
            return Err(self.no_cast(&value, &ty, span, Some(hint.to_owned())));
        }
        if let ExprKind::ConstantBytes(known) = &value.kind {
            let mut word = [0; 8];
            word.iter_mut().zip(known).for_each(|(to, byte)| *to = *byte);
            let whole = constant(u64::from_le_bytes(word), Type::U64, span);
            return Ok(narrowed(whole, ty, span));
        }
        let value = self.in_memory(value);
        match value.kind {
            ExprKind::Bytes {
                address,
                offset,
                access,
                ..
            } => {
                let spot = MemoryPlace {
                    address: *address,
                    offset: i64::from(offset),
                    access,
                };
                match ty {
                    // Any byte but 0 is true, as where a number is cast.
                    Type::Bool => {
                        let number = self.value_at(spot, Type::integer(size as u8, false), span)?;
                        Ok(self.converted(number, Type::Bool, span))
                    }
                    ty => self.value_at(spot, ty, span),
                }
            }
            _ => Err(self.error(span, "this value lies nowhere in memory")),
        }
    }

    /// A scalar as another scalar type. An address keeps its space, and its trust if it points to the same.
    pub(crate) fn converted(&mut self, value: Expr, ty: Type, span: Span) -> Expr {
        match ty {
            Type::Pointer(mut to) => {
                match value.ty {
                    Type::Pointer(from) => {
                        to.space = from.space;
                        to.trusted = from.trusted && (from.to, from.levels) == (to.to, to.levels);
                    }
                    _ if self.context.space == Space::User => to.space = Space::User,
                    _ => {}
                }
                // As in bpftrace a narrow number is an address by its own bytes: (uint8 *)-1 is 0xff.
                let value = match value.ty {
                    Type::Integer {
                        size: size @ (1 | 2 | 4),
                        signed: true,
                        ..
                    } if self.globals.infers_types => narrowed(value, Type::integer(size, false), span),
                    _ => value,
                };
                Expr {
                    ty: Type::Pointer(to),
                    span,
                    ..value
                }
            }
            Type::Bool if value.ty == Type::Bool => value,
            Type::Bool => {
                let zero = constant(0, Type::I64, span);
                comparison(CompareOp::NotEqual, false, value, zero, span)
            }
            ty => narrowed(value, ty, span),
        }
    }
}
