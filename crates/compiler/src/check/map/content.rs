//! Contents of maps: the type of their values, and the check that every use of a map agrees with its first.

use crate::check::checker::{Checked, Checker};
use crate::check::shape::{Stored, join};
use crate::check::tree::{Expr, ExprKind, MapChange, Pointee, Pointer, Show, Type};
use crate::check::value::room;
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::aggregate::{MapType, ValueKind, function, state};
use kestrel_trace::layout::FieldType;

/// Bytes that a map has for strings at least where its first string is a constant: others may be longer.
const MIN_STRING: u32 = 64;

impl Checker<'_> {
    /// The type that a map holds, from all that is stored in it so far.
    pub(super) fn join_value_type(&mut self, name: &str, ty: Type) -> Type {
        let shape = self.globals.shapes.maps.entry(name.to_owned()).or_default();
        let known = match &shape.value {
            Some(Stored::Value(known)) if join(known, &ty).is_none() => Some(known.clone()),
            _ => None,
        };
        if let Some(known) = known {
            self.globals.shapes.notes_read(&known);
            self.globals.shapes.notes_read(&ty);
        }
        let shape = self.globals.shapes.maps.entry(name.to_owned()).or_default();
        let joined = match &shape.value {
            Some(Stored::Value(known)) => join(known, &ty).unwrap_or_else(|| known.clone()),
            _ => ty,
        };
        shape.value = Some(Stored::Value(joined.clone()));
        joined
    }

    /// Kind of value of a map in which values of a type are stored.
    pub(super) fn value_kind_of(&mut self, value: &Expr, ty: &Type) -> Checked<ValueKind> {
        if ty.is_scalar() {
            return Ok(ValueKind::Scalar(scalar_type(ty)));
        }
        if let Type::CharArray { size } = ty {
            let size = match self.globals.infers_types {
                true => size.next_multiple_of(8),
                false => string_size(value),
            };
            if size <= state::MAX_VALUE {
                return Ok(ValueKind::CharArray { size });
            }
        }
        match self.kept_type(ty) {
            Some(kept) if kept.fixed_size() <= state::MAX_VALUE => Ok(ValueKind::Whole(kept)),
            _ => {
                let message = format!("{} in a map", self.describe(ty));
                Err(self.not_yet(value.span, &message))
            }
        }
    }

    /// Records what a map of scalars holds: addresses, once one was stored, whose type all that is stored must agree about.
    pub(super) fn record_value_type(&mut self, map: &MapType, change: &MapChange) -> Checked<()> {
        let (MapChange::Set(stored) | MapChange::Add(stored)) = change else {
            return Ok(());
        };
        let number = map.number;
        let known = self.globals.held.get(&number).cloned();
        if let (MapChange::Set(_), Some(known)) = (change, &known)
            && self.mixes_pointers(known, &stored.ty)
        {
            let message = self.mismatch(&map.title(), stored, known);
            let found = Diagnostic::error(stored.span, message);
            return Err(self.report(found.hint("cast it, or use another map")));
        }
        let Type::Pointer(stored_pointer) = &stored.ty else {
            if matches!(change, MapChange::Add(_)) && !matches!(known, Some(Type::Pointer(_))) {
                self.globals.counted.insert(number);
            }
            self.globals
                .held
                .entry(number)
                .or_insert_with(|| stored.ty.clone());
            return Ok(());
        };
        let pointer = Pointer {
            // A program may read the map after the object that the address points to is gone.
            trusted: false,
            ..*stored_pointer
        };
        if let Some(Type::Pointer(known)) = known {
            let integers = self.globals.infers_types && known.leads_to_integers_as(&pointer);
            if (known.to, known.levels) == (pointer.to, pointer.levels) || integers {
                return Ok(());
            }
            let message = self.mismatch(&map.title(), stored, &Type::Pointer(known));
            let diagnostic = Diagnostic::error(stored.span, message);
            return Err(self.report(diagnostic.hint("cast it, or use another map")));
        }
        let plain = pointer.to == Pointee::Unknown && pointer.levels == 0;
        if self.globals.counted.contains(&number) && !plain {
            let message = format!(
                "{} holds {} here, but was counted with as a number before",
                map.title(),
                self.describe(&stored.ty)
            );
            let diagnostic = Diagnostic::error(stored.span, message);
            let hint = "put what stores the address first, or cast it: (uint64)…";
            return Err(self.report(diagnostic.hint(hint)));
        }
        self.globals.held.insert(number, Type::Pointer(pointer));
        Ok(())
    }

    /// Message for a value that is of another type than the map's first use gives it.
    fn contents_differ(&self, map: &MapType, kind: &ValueKind, known: bool) -> String {
        let title = map.title();
        let held = self.globals.shapes.stored_type(&map.name);
        let spelled = |kind: &ValueKind| match kind {
            ValueKind::Aggregation(aggregation) => Some(format!("{}_t", aggregation.function.name())),
            _ => Some(self.spelled_type(held?).1),
        };
        if self.globals.infers_types && known {
            match (&map.value, kind) {
                (ValueKind::Aggregation(one), ValueKind::Aggregation(other))
                    if one.function.name() == other.function.name() =>
                {
                    let name = one.function.name();
                    return match name == function::HIST.name() {
                        true => format!("Different bits in a single {name} unsupported"),
                        false => format!("Different {name} bounds in a single map unsupported"),
                    };
                }
                (ValueKind::Aggregation(_), _) | (_, ValueKind::Aggregation(_)) => {
                    if let (Some(stored), Some(has)) = (spelled(kind), spelled(&map.value)) {
                        return format!(
                            "Type mismatch for {title}: trying to assign value of type '{stored}' when map already has a type '{has}'"
                        );
                    }
                }
                _ => {}
            }
        }
        let first = if known { "since" } else { "as it was read in" };
        format!(
            "{title} holds {} here, but {} {first} its first use in {}",
            held_words(kind),
            held_words(&map.value),
            map.first
        )
    }

    /// The map with what it holds now known; an error where that contradicts its first use.
    pub(super) fn agree_on_value(&mut self, map: MapType, kind: &ValueKind, span: Span) -> Checked<MapType> {
        let known = !self
            .globals
            .unwritten
            .iter()
            .any(|(number, _)| *number == map.number);
        let agreed = match (&map.value, kind) {
            (ValueKind::CharArray { size }, ValueKind::CharArray { size: other }) => other <= size,
            (ValueKind::Aggregation(a), ValueKind::Aggregation(b)) => a.agrees_with(b),
            (ValueKind::Scalar(_), ValueKind::Scalar(_)) => true,
            (ValueKind::Whole(a), ValueKind::Whole(b)) => a == b,
            _ => false,
        };
        if !agreed && !self.globals.open.contains(&map.number) {
            let message = self.contents_differ(&map, kind, known);
            let hint = match known {
                true => "a map is filled in one way: keep this in another map",
                false => "put the handler that writes it first",
            };
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        if known {
            return Ok(map);
        }
        // The expression that read it first did not know how its values are shown.
        let map = MapType {
            entries: self.entries(&map.name, &map.keys, kind),
            marks: self.marks(&map.name, &map.keys, kind),
            value: kind.clone(),
            ..map
        };
        let known = self.globals.maps.iter_mut().find(|one| one.number == map.number);
        if let Some(entry) = known {
            entry.clone_from(&map);
        }
        Ok(map)
    }

    /// Whether a map without keys holds a stack.
    pub(crate) fn holds_stack(&self, name: &str) -> bool {
        let shape = self.globals.shapes.maps.get(name);
        matches!(
            shape.and_then(|shape| shape.value.as_ref()),
            Some(Stored::Value(Type::HeldStack(_)))
        )
    }
}

/// Bytes that a map gives a text whose first use this is.
pub(super) fn string_size(text: &Expr) -> u32 {
    match &text.kind {
        ExprKind::ConstantBytes(bytes) => (bytes.len() as u32).max(MIN_STRING),
        _ => room(text),
    }
    .next_multiple_of(8)
}

/// A scalar's type where it takes 8 bytes.
pub(super) fn scalar_type(ty: &Type) -> FieldType {
    match ty {
        Type::Integer { signed, show, .. } => {
            let signed = *signed;
            match show {
                Show::Number(_) | Show::Natural => FieldType::Integer {
                    size: 8,
                    signed,
                    base: show.base(),
                },
                Show::Names(names) => FieldType::Enumeration {
                    size: 8,
                    signed,
                    names: names.clone(),
                },
                Show::Flags(names) => FieldType::Flags {
                    size: 8,
                    names: names.clone(),
                },
            }
        }
        Type::Pointer(pointer) => FieldType::Pointer {
            symbolic: pointer.symbolic,
        },
        Type::Bool => FieldType::Bool,
        // No scalars: who stores one of these has refused it.
        Type::CharArray { .. }
        | Type::String { .. }
        | Type::Memory { .. }
        | Type::Buffer { .. }
        | Type::Array { .. }
        | Type::Struct(..)
        | Type::Tuple(_)
        | Type::Named(_)
        | Type::HeldStack(_)
        | Type::Stack { .. }
        | Type::StackCopy { .. } => FieldType::Integer {
            size: 8,
            signed: true,
            base: kestrel_trace::layout::Base::Decimal,
        },
    }
}

fn held_words(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Scalar(_) => "a number".to_owned(),
        ValueKind::CharArray { size } => format!("a string of up to {size} bytes"),
        ValueKind::Whole(_) => "values of several parts".to_owned(),
        ValueKind::Aggregation(aggregation) => aggregation.function.described(aggregation),
    }
}
