//! A map in an expression: the value at a key, whether there is one, how often the map was cleared.

use super::content::scalar_type;
use super::place::Usage;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Access, Expr, ExprKind, MapPlace, Show, Type};
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;
use kestrel_trace::aggregate::aggregation::AsNumber;
use kestrel_trace::aggregate::{Aggregation, MapType, ValueKind};
use kestrel_trace::layout::FieldType;
use std::sync::Arc;

impl Checker<'_> {
    /// `@x[keys]` as a value.
    pub(crate) fn map_value(&mut self, name: &str, keys: &[ast::Expr], span: Span) -> Checked<Expr> {
        let keys: Vec<&ast::Expr> = keys.iter().collect();
        if self.globals.infers_types && self.globals.shapes.waits_for(name) {
            self.globals.shapes.notes_open(name);
            let message = format!("what @{name} holds is not known in this round");
            return Err(self.error(span, message));
        }
        // No use so far may have said what the map holds: then it holds numbers.
        let assumed = ValueKind::Scalar(scalar_type(&Type::I64));
        let place = self.map_place(name, &keys, None, &assumed, Usage::Reads, span)?;
        if let ValueKind::Scalar(ty) = &place.map.value {
            self.globals.shapes.notes_read(&read_type(ty));
        }
        let ty = match &place.map.value {
            ValueKind::Scalar(ty) => match self.globals.held.get(&place.map.number) {
                Some(Type::Pointer(pointer)) => Type::Pointer(*pointer),
                _ => read_type(ty),
            },
            ValueKind::CharArray { size } => Type::CharArray { size: *size },
            ValueKind::Whole(_) => {
                let Some(ty) = self.globals.held.get(&place.map.number).cloned() else {
                    return Err(self.error(span, "what this map holds is not known here"));
                };
                self.globals.shapes.notes_read(&ty);
                let size = self.size_of(&ty).unwrap_or_default();
                let address = Expr::new(ExprKind::MapCopy(place, size), Type::hexadecimal(8), span);
                let kind = ExprKind::Bytes {
                    address: Box::new(address),
                    offset: 0,
                    size,
                    access: Access::Context,
                };
                return Ok(Expr::new(kind, ty, span));
            }
            ValueKind::Aggregation(_) => return self.aggregation_at(&place, span),
        };
        Ok(Expr::new(ExprKind::MapValue(place), ty, span))
    }

    /// Reads the result of an aggregation: a number, or a record of several.
    pub(in crate::check) fn aggregation_at(&mut self, place: &MapPlace, span: Span) -> Checked<Expr> {
        let function = place.map.value.function().unwrap_or_default();
        if let Some(aggregation) = place.map.value.aggregation() {
            let read = |number| {
                let ty = aggregation_type(aggregation, number);
                Expr::new(ExprKind::Aggregate(place.clone(), number), ty, span)
            };
            if let Some(number) = aggregation.function.as_number() {
                return Ok(read(number));
            }
            let parts = aggregation.function.as_record().iter();
            let parts: Vec<_> = parts
                .map(|(name, number)| ((*name).to_owned(), read(*number)))
                .collect();
            if !parts.is_empty() {
                return self.tuple(parts, span);
            }
        }
        let message = format!(
            "{} holds values of {function}(), which handlers cannot read",
            place.map.title()
        );
        let hint = "count with ++ or += where the handler itself needs a number";
        self.refuse_word(&format!("{function}_t"));
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// `has_key(@x, key)`.
    pub(crate) fn has_key(&mut self, name: &str, keys: &[&ast::Expr], span: Span) -> Checked<Expr> {
        let place = self.any_place(name, keys, span)?;
        if place.keys.is_empty() {
            let message = format!("{} has no keys", place.map.title());
            return Err(self.error(span, message));
        }
        Ok(Expr::new(ExprKind::HasKey(place), Type::Bool, span))
    }

    /// The generation of a map: the number of times that it was cleared.
    pub(crate) fn generation_of(&mut self, map: MapType, span: Span) -> Expr {
        Expr::new(ExprKind::Generation(Arc::new(map)), Type::U64, span)
    }
}

/// The type of what is read from a map of scalars.
pub(in crate::check) fn read_type(ty: &FieldType) -> Type {
    match ty {
        FieldType::Integer { signed, base, .. } => Type::Integer {
            size: 8,
            signed: *signed,
            show: Show::Number(*base),
        },
        FieldType::Enumeration { signed, names, .. } => Type::Integer {
            size: 8,
            signed: *signed,
            show: Show::Names(names.clone()),
        },
        FieldType::Flags { names, .. } => Type::Integer {
            size: 8,
            signed: false,
            show: Show::Flags(names.clone()),
        },
        FieldType::Pointer { .. } => Type::hexadecimal(8),
        FieldType::Bool => Type::Bool,
        _ => Type::I64,
    }
}

/// The type of an aggregation that is read as one number.
fn aggregation_type(aggregation: &Aggregation, number: AsNumber) -> Type {
    let signed = match number {
        AsNumber::Sum { signed } => {
            signed || (aggregation.signed && aggregation.function.as_record().is_empty())
        }
        AsNumber::SecondSum | AsNumber::Mean | AsNumber::Extreme { .. } => aggregation.signed,
    };
    Type::integer(8, signed)
}
