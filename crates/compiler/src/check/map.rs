//! Maps: their keys and values, and that every use of one agrees with its first.

use super::checker::{Checked, Checker, Reported};
use super::gathering::Gathering;
use super::shape::Stored;
use super::tree::{
    Access, Expr, ExprKind, MapChange, MapPlace, Pointee, Pointer, Show, Statement, StatementKind, Type,
    UnaryOp,
};
use super::value::{constant, is_literal, room, scaled, widened};
use crate::builtin;
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::aggregate::gather::AsNumber;
use kestrel_trace::aggregate::{EVERY_KEY, Gathered, MOST_KEY, MapType, ValueKind, state};
use kestrel_trace::layout::{FieldType, Frames, HeldStack, Space, StackMode};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes of a text in a map whose first text is a constant: room for longer ones.
const TEXT: u32 = 64;

/// Generations of a map without keys that are kept apart, a power of two: those that were cleared are read a moment later.
const GENERATIONS: u32 = 64;

const SAME_KEYS: &str = "all uses of a map have the same keys: keep this in another map";

/// Whether a use of a map changes what it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    Reads,
    Writes,
    /// It takes out keys, or asks for one.
    Keys,
}

impl Checker<'_> {
    /// A scalar as a plain 64-bit number, signed as arithmetic takes it.
    pub(crate) fn number(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let checked = self.scalar(value)?;
        let ty = Type::integer(8, widened(checked.clone()).ty.is_signed());
        Ok(Expr {
            ty,
            ..widened(checked)
        })
    }

    /// A number of `range` that is known now.
    pub(crate) fn whole(
        &mut self,
        value: &ast::Expr,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Checked<i64> {
        let checked = self.scalar(value)?;
        let Some(known) = checked.constant() else {
            let message = format!("{what} must be known before the program runs");
            return Err(self.error(value.span, message));
        };
        let number = known.cast_signed();
        if range.contains(&number) {
            return Ok(number);
        }
        let message = format!("{what} is {} to {}", range.start(), range.end());
        Err(self.error(value.span, message))
    }

    /// `@x[keys]` as a value.
    pub(crate) fn map_value(&mut self, name: &str, keys: &[ast::Expr], span: Span) -> Checked<Expr> {
        let keys: Vec<&ast::Expr> = keys.iter().collect();
        let assumed = ValueKind::Scalar(scalar_type(&Type::I64));
        let place = self.map_place(name, &keys, None, &assumed, Usage::Reads, span)?;
        let ty = match &place.map.value {
            ValueKind::Scalar(ty) => match self.globals.held.get(&place.map.number) {
                Some(Type::Pointer(pointer)) => Type::Pointer(*pointer),
                _ => read_type(ty),
            },
            ValueKind::Text { size } => Type::Text { size: *size },
            ValueKind::Whole(_) => {
                let Some(ty) = self.globals.held.get(&place.map.number).cloned() else {
                    return Err(self.error(span, "what this map holds is not known here"));
                };
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
            ValueKind::Gathered(gathered) if gathered.function.as_number().is_some() => {
                let ty = match gathered.function.as_number() {
                    Some(number) => gathered_type(gathered, number),
                    None => Type::I64,
                };
                return Ok(Expr::new(ExprKind::Gathering(place), ty, span));
            }
            other => {
                let function = other.function().unwrap_or_default();
                let message = format!(
                    "{} gathers {function}(), which handlers cannot read",
                    place.map.title()
                );
                let hint = "count with ++ or += where the handler itself needs a number";
                return Err(self.report(Diagnostic::error(span, message).hint(hint)));
            }
        };
        Ok(Expr::new(ExprKind::MapValue(place), ty, span))
    }

    /// `@x[keys] = value`, `@x[keys] += value`.
    pub(super) fn assign_map(
        &mut self,
        name: &str,
        keys: &[ast::Expr],
        op: Option<ast::BinaryOp>,
        target: &ast::Expr,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<StatementKind> {
        let keys: Vec<&ast::Expr> = keys.iter().collect();
        if let (None, ast::ExprKind::Call { name: function, args }) = (op, &value.kind) {
            let usage = builtin::used(&function.node, function.span, Some(args), value.span);
            if let Some(gathered) = builtin::aggregation(self, &usage) {
                let Gathering { gathered, value } = gathered?;
                let shape = self.globals.shapes.maps.entry(name.to_owned()).or_default();
                shape.value = Some(Stored::Gathered(gathered.clone()));
                let kind = ValueKind::Gathered(gathered);
                let place = self.map_place(name, &keys, Some(&kind), &kind, Usage::Writes, span)?;
                return Ok(StatementKind::Map(place, MapChange::Aggregate(value)));
            }
        }
        let change = match op {
            Some(ast::BinaryOp::Add) => MapChange::Add(self.added(name, value)?),
            Some(ast::BinaryOp::Subtract) => MapChange::Add(negated(self.added(name, value)?)),
            Some(op) => MapChange::Set(self.binary(op, target, value, span)?),
            None => MapChange::Set(self.kept(value)?),
        };
        self.stores(name, &keys, change, span)
    }

    /// What `@name += value` adds: a number, or so many of the things that the map's addresses point to.
    fn added(&mut self, name: &str, value: &ast::Expr) -> Checked<Expr> {
        let held = self
            .globals
            .map(name)
            .and_then(|map| self.globals.held.get(&map.number));
        let Some(Type::Pointer(pointer)) = held else {
            if let Some(map) = self.globals.map(name).cloned() {
                self.known_unit(&map, value.span)?;
            }
            return self.number(value);
        };
        let pointer = *pointer;
        let count = self.scalar(value)?;
        if matches!(count.ty, Type::Pointer(_)) {
            let message = format!("@{name} holds an address: another cannot be added to it or taken from it");
            return Err(self.error(value.span, message));
        }
        let size = self.step(pointer, value.span)?;
        Ok(scaled(widened(count), size))
    }

    /// Notes what a map of scalars holds: addresses, once one was stored, whose type all that is stored must agree about.
    fn notes_held(&mut self, map: &MapType, change: &MapChange) -> Checked<()> {
        let (MapChange::Set(stored) | MapChange::Add(stored)) = change else {
            return Ok(());
        };
        let number = map.number;
        let known = self.globals.held.get(&number).cloned();
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
            if (known.to, known.levels) == (pointer.to, pointer.levels) {
                return Ok(());
            }
            let message = format!(
                "this is {}, but {} holds {}",
                self.describe(&stored.ty),
                map.title(),
                self.describe(&Type::Pointer(known))
            );
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

    /// `@x[keys] = value` or `@x[keys] += value` with a value that is checked already.
    pub(super) fn stores(
        &mut self,
        name: &str,
        keys: &[&ast::Expr],
        change: MapChange,
        span: Span,
    ) -> Checked<StatementKind> {
        let (MapChange::Set(stored) | MapChange::Add(stored)) = &change else {
            return Err(Reported);
        };
        let holding = self.holding(&super::text::spelled(stored.clone()), true);
        let holding = holding?;
        let stored_type = self.map_shape(name, holding.clone());
        let class = |ty: &Type| (ty.is_scalar(), ty.is_text());
        if class(&holding) != class(&stored_type) {
            let message = format!(
                "this is {}, but @{name} holds {}",
                self.describe(&stored.ty),
                self.describe(&stored_type)
            );
            let found = Diagnostic::error(stored.span, message);
            return Err(self.report(found.hint("keep it in another map")));
        }
        let kind = self.held(stored, &stored_type)?;
        let place = self.map_place(name, keys, Some(&kind), &kind, Usage::Writes, span)?;
        if let ValueKind::Whole(_) = &place.map.value {
            self.globals.held.insert(place.map.number, stored_type.clone());
            let MapChange::Set(value) = change else {
                return Err(self.error(span, "only numbers can be added to"));
            };
            let Some(fitted) = self.fitted_to(value.clone(), &stored_type) else {
                let message = format!(
                    "this is {}, but {} holds {}",
                    self.describe(&value.ty),
                    place.map.title(),
                    self.describe(&stored_type)
                );
                let found = Diagnostic::error(value.span, message);
                return Err(self.report(found.hint("keep it in another map")));
            };
            return Ok(StatementKind::Map(place, MapChange::Set(fitted)));
        }
        self.notes_held(&place.map, &change)?;
        Ok(StatementKind::Map(place, change))
    }

    /// An aggregation that names no map: one by the event's number.
    pub(crate) fn gather(&mut self, gathering: Gathering, span: Span) -> Checked<StatementKind> {
        let Gathering { gathered, value } = gathering;
        let function = gathered.function.name();
        let kind = ValueKind::Gathered(gathered);
        // The second hist() of a handler is another map than the first; so is one of another kind.
        if !self.bare.contains(&(function, span)) {
            self.bare.push((function, span));
        }
        let before = |other: &&(&str, Span)| other.0 == function && other.1.start <= span.start;
        let mut place = self.bare.iter().filter(before).count();
        let named = |place: usize| match place {
            1 => format!("{function}-by-event"),
            n => format!("{function}-{n}-by-event"),
        };
        while self
            .globals
            .map(&named(place))
            .is_some_and(|map| map.value != kind)
        {
            place += 1;
        }
        let key = Expr::new(ExprKind::EventNumber, Type::U64, span);
        let keys = vec![FieldType::Enumeration {
            size: 8,
            signed: false,
            names: [].into(),
        }];
        let known = self.globals.map(&named(place)).cloned();
        let map = match known {
            Some(map) => map,
            None => self.new_map(named(place), keys, kind, true, span)?,
        };
        let place = MapPlace {
            map: Arc::new(map),
            keys: vec![key],
        };
        Ok(StatementKind::Map(place, MapChange::Aggregate(value)))
    }

    /// `delete(@x[keys])`.
    pub(crate) fn delete_key(
        &mut self,
        name: &str,
        keys: &[&ast::Expr],
        span: Span,
    ) -> Checked<StatementKind> {
        let place = self.any_place(name, keys, span)?;
        if keys.is_empty() {
            self.only_with_keys(&place.map, "delete()", span)?;
        }
        Ok(StatementKind::Map(place, MapChange::Delete))
    }

    /// `delete(@x[keys])` as a value: whether there was anything.
    pub(crate) fn deleted(&mut self, change: StatementKind, span: Span) -> Checked<Expr> {
        let StatementKind::Map(place, _) = &change else {
            return Err(self.error(span, "this has no value"));
        };
        let there = match place.keys.is_empty() {
            true => constant(1, Type::Bool, span),
            false => Expr::new(ExprKind::HasKey(place.clone()), Type::Bool, span),
        };
        let kept = self.hidden_variable("deleted", Type::Bool);
        let keep = StatementKind::Set {
            variable: kept,
            value: there,
        };
        let statements = [keep, change].map(|kind| Statement { kind, span }).into();
        let value = Box::new(Expr::new(ExprKind::Variable(kept), Type::Bool, span));
        Ok(Expr::new(
            ExprKind::Sequence { statements, value },
            Type::Bool,
            span,
        ))
    }

    /// `clear(@x)` and, where the keys stay, `zero(@x)`.
    pub(crate) fn clear_map(&mut self, name: &str, zeroed: bool, span: Span) -> Checked<StatementKind> {
        let map = Arc::new(self.known_map(name, span)?);
        self.only_with_keys(&map, "clear()", span)?;
        let keys = Vec::new();
        let whole = (*map).clone();
        let zeroed = zeroed && self.globals.rounds;
        let change = StatementKind::Map(MapPlace { map, keys }, MapChange::Clear { zeroed });
        if !self.globals.rounds {
            return Ok(change);
        }
        // The reader learns that nothing older will be printed any more.
        let generation = self.generation_of(whole, span);
        let verb = if zeroed { "zeroed" } else { "cleared" };
        let cleared = self.output(verb, name, vec![generation], span)?;
        let all = [change, cleared].map(|kind| Statement { kind, span });
        Ok(StatementKind::Block(all.into()))
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

    /// Whether a map may be emptied: an aggregation without keys is one value per CPU, of which a handler reaches its own only.
    fn only_with_keys(&mut self, map: &MapType, what: &str, span: Span) -> Checked<()> {
        if !map.keys.is_empty() || !map.value.is_per_cpu() || map.entries > 1 {
            return Ok(());
        }
        let message = format!("{what} in a handler needs keys, and {} has none", map.title());
        let hint = format!("give it one: {}[0]", map.title());
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// How often a map was cleared so far.
    pub(crate) fn generation_of(&mut self, map: MapType, span: Span) -> Expr {
        Expr::new(ExprKind::Generation(Arc::new(map)), Type::U64, span)
    }

    pub(crate) fn known_map(&mut self, name: &str, span: Span) -> Checked<MapType> {
        if let Some(map) = self.globals.map(name) {
            return Ok(map.clone());
        }
        if let Some(map) = self.foreseen_map(name, span) {
            return map;
        }
        let names: Vec<String> = self.globals.maps.iter().map(MapType::title).collect();
        let hint = did_you_mean(&format!("@{name}"), names.iter().map(String::as_str));
        let message = match self.globals.rounds {
            true => format!("nothing writes the map @{name}"),
            false => format!("there is no map @{name} so far: nothing before this writes it"),
        };
        let hint = hint.unwrap_or_else(|| match self.globals.rounds {
            true => format!("a map begins where something is stored in it: @{name} = 1, @{name} = count()"),
            false => "put the handler that writes it first".to_owned(),
        });
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// A map of which all that is known comes from handlers further on.
    fn foreseen_map(&mut self, name: &str, span: Span) -> Option<Checked<MapType>> {
        let shape = self.globals.shapes.maps.get(name).cloned()?;
        let (keys, value) = (shape.keys?, shape.value?);
        let kind = match value {
            Stored::Gathered(gathered) => ValueKind::Gathered(gathered),
            Stored::Value(ty) => {
                let kind = self.held(&constant(0, Type::I64, span), &ty).ok()?;
                self.globals.held.insert(self.next_map(), ty);
                kind
            }
        };
        let types = keys.iter().map(|key| self.kept_key(key));
        let types = types.collect::<Option<Vec<_>>>()?;
        let made = self.new_map(name.to_owned(), types, kind, false, span);
        if let Ok(map) = &made {
            let message = format!("{} is used, but no handler writes it", map.title());
            let entry = (map.number, Diagnostic::error(span, message));
            self.globals.unwritten.push(entry);
        }
        Some(made)
    }

    /// How a key of a type lies in a map.
    fn kept_key(&mut self, ty: &Type) -> Option<FieldType> {
        Some(match ty {
            Type::Text { size } => FieldType::Text {
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

    /// Whether a map without keys holds a stack.
    pub(crate) fn holds_stack(&self, name: &str) -> bool {
        let shape = self.globals.shapes.maps.get(name);
        matches!(
            shape.and_then(|shape| shape.value.as_ref()),
            Some(Stored::Value(Type::HeldStack(_)))
        )
    }

    /// A place in a map of which only the keys matter: with some, it need not be known what the map holds.
    fn any_place(&mut self, name: &str, keys: &[&ast::Expr], span: Span) -> Checked<MapPlace> {
        let kind = match self.globals.map(name) {
            None if !keys.is_empty() => ValueKind::Scalar(scalar_type(&Type::I64)),
            _ => self.known_map(name, span)?.value,
        };
        self.map_place(name, keys, None, &kind, Usage::Keys, span)
    }

    /// The type that a map holds, from all that is stored in it so far.
    fn map_shape(&mut self, name: &str, ty: Type) -> Type {
        let shape = self.globals.shapes.maps.entry(name.to_owned()).or_default();
        let joined = match &shape.value {
            Some(Stored::Value(known)) => super::shape::join(known, &ty).unwrap_or_else(|| known.clone()),
            _ => ty,
        };
        shape.value = Some(Stored::Value(joined.clone()));
        joined
    }

    /// What a map holds in which values of a type are stored.
    fn held(&mut self, value: &Expr, ty: &Type) -> Checked<ValueKind> {
        if ty.is_scalar() {
            return Ok(ValueKind::Scalar(scalar_type(ty)));
        }
        if let Type::Text { size } = ty {
            let size = match self.globals.rounds {
                true => size.next_multiple_of(8),
                false => text_size(value),
            };
            if size <= state::MOST_VALUE {
                return Ok(ValueKind::Text { size });
            }
        }
        match self.kept_type(ty) {
            Some(kept) if kept.fixed_size() <= state::MOST_VALUE => Ok(ValueKind::Whole(kept)),
            _ => {
                let message = format!("{} in a map", self.describe(ty));
                Err(self.not_yet(value.span, &message))
            }
        }
    }

    /// A place in a map, which is made if this is its first use. `kind` is what this use holds it for, if it cares; `assumed` what a new map holds.
    pub(super) fn map_place(
        &mut self,
        name: &str,
        keys: &[&ast::Expr],
        kind: Option<&ValueKind>,
        assumed: &ValueKind,
        usage: Usage,
        span: Span,
    ) -> Checked<MapPlace> {
        let mut checked = Vec::new();
        for key in flat(keys) {
            let value = match keys {
                // A tuple that is the whole key has the parts of one that is written out.
                [_] if !matches!(key.kind, ast::ExprKind::Tuple(_)) => self.parts_of_key(key),
                _ => None,
            };
            match value {
                Some(parts) => checked.extend(parts),
                None => checked.push(self.map_key(key)),
            }
        }
        let checked: Vec<(FieldType, Expr)> = checked.into_iter().collect::<Checked<_>>()?;
        let (mut types, mut keys): (Vec<FieldType>, Vec<Expr>) = checked.into_iter().unzip();
        if self.globals.rounds {
            (types, keys) = self.key_shape(name, types, keys, span)?;
        }
        let map = match self.globals.map(name).cloned() {
            Some(map) => {
                self.agree_on_keys(&map, &keys, span)?;
                match kind {
                    Some(kind) => self.agree_on_value(map, kind, span)?,
                    None => map,
                }
            }
            None => {
                let known = match (
                    usage,
                    self.globals.shapes.maps.get(name).and_then(|s| s.value.clone()),
                ) {
                    (Usage::Writes, _) | (_, None) => None,
                    (_, Some(Stored::Gathered(gathered))) => Some(ValueKind::Gathered(gathered)),
                    (_, Some(Stored::Value(ty))) => {
                        let nothing = constant(0, Type::I64, span);
                        self.held(&nothing, &ty)
                            .ok()
                            .map(|kind| (kind, ty))
                            .map(|(kind, ty)| {
                                self.globals.held.insert(self.next_map(), ty);
                                kind
                            })
                    }
                };
                let assumed = known.as_ref().unwrap_or(assumed);
                let map = self.new_map(name.to_owned(), types, assumed.clone(), false, span)?;
                // A later handler may still write it, so the error waits until all handlers are checked.
                if usage != Usage::Writes {
                    let used = match usage {
                        Usage::Keys => "used",
                        _ => "read",
                    };
                    let message = format!("{} is {used}, but no handler writes it", map.title());
                    if usage == Usage::Keys {
                        self.globals.open.insert(map.number);
                    }
                    let entry = (map.number, Diagnostic::error(span, message));
                    self.globals.unwritten.push(entry);
                }
                map
            }
        };
        if usage != Usage::Keys {
            self.globals.open.remove(&map.number);
        }
        if usage == Usage::Writes {
            self.globals.unwritten.retain(|(number, _)| *number != map.number);
        }
        Ok(MapPlace {
            map: Arc::new(map),
            keys,
        })
    }

    /// Keys as all uses of a map together want them.
    fn key_shape(
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
            .map(|(known, own)| super::shape::join(known, own).unwrap_or_else(|| known.clone()));
        shape.narrow = Some(match expected.len() == narrow.len() {
            true => wider.collect(),
            false => expected.clone(),
        });
        let joined: Vec<Type> = match &shape.keys {
            Some(known) if known.len() == own.len() => known
                .iter()
                .zip(&own)
                .map(|(known, own)| super::shape::join(known, own).unwrap_or_else(|| known.clone()))
                .collect(),
            // That the numbers of keys do not agree is said where the map is looked at.
            Some(_) => return Ok((types, keys)),
            None => own,
        };
        shape.keys = Some(joined.clone());
        let mut fitted = (Vec::new(), Vec::new());
        for ((ty, key), joined) in types.into_iter().zip(keys).zip(joined) {
            let (ty, key) = match &joined {
                Type::Text { size } if key.ty.is_text() => (
                    FieldType::Text {
                        size: size.next_multiple_of(8),
                    },
                    key,
                ),
                Type::Stack { mode, .. } if *mode != StackMode::BuildId => (ty, key),
                joined if joined.is_scalar() && key.ty.is_scalar() => (scalar_type(joined), key),
                joined => {
                    let Some(fits) = self.fitted_to(key.clone(), joined) else {
                        let message = format!(
                            "Argument mismatch for @{name}: trying to access with arguments: '{}' when map expects arguments: '{}'",
                            self.spelled_keys(&narrow),
                            self.spelled_keys(&expected)
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

    /// Types of keys in the language's words.
    fn spelled_keys(&self, keys: &[Type]) -> String {
        let words: Vec<String> = keys.iter().map(|key| self.spelled_type(key).1).collect();
        match words.as_slice() {
            [only] => only.clone(),
            words => format!("({})", words.join(",")),
        }
    }

    /// The parts of a key that is a tuple in a variable or a map.
    fn parts_of_key(&mut self, key: &ast::Expr) -> Option<Vec<Checked<(FieldType, Expr)>>> {
        let worth = matches!(
            key.kind,
            ast::ExprKind::Variable(_) | ast::ExprKind::Member { .. }
        );
        let value = worth.then(|| self.expression(key).ok())??;
        let Type::Tuple(ty) = &value.ty else { return None };
        let parts = (0..ty.members.len()).map(|place| {
            let part = self.tuple_part(&value, place, key.span).ok_or(Reported)?;
            self.key_of(part, key.span)
        });
        Some(parts.collect())
    }

    /// A key with its type in the map.
    fn map_key(&mut self, key: &ast::Expr) -> Checked<(FieldType, Expr)> {
        let value = self.kept(key)?;
        self.key_of(value, key.span)
    }

    fn key_of(&mut self, value: Expr, span: Span) -> Checked<(FieldType, Expr)> {
        if value.ty.is_scalar() {
            return Ok((scalar_type(&value.ty), value));
        }
        if value.ty.is_text() {
            return Ok((
                FieldType::Text {
                    size: text_size(&value),
                },
                value,
            ));
        }
        match value.ty {
            Type::Stack { space, max, .. } if !self.globals.rounds => {
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

    fn new_map(
        &mut self,
        name: String,
        keys: Vec<FieldType>,
        value: ValueKind,
        by_event: bool,
        span: Span,
    ) -> Checked<MapType> {
        let number = self.next_map();
        if number >= state::MOST_MAPS {
            return Err(self.error(span, format!("there can be at most {} maps", state::MOST_MAPS)));
        }
        let declared = self.globals.declared.get(&name);
        let evicts = declared.is_some_and(|map| map.evicts) && !keys.is_empty();
        let map = MapType {
            number,
            entries: self.entries(&name, &keys, &value),
            name,
            keys,
            value,
            evicts,
            by_event,
            first: self.context.name.clone(),
        };
        let most = match self.globals.rounds {
            true => MOST_KEY,
            false => EVERY_KEY,
        };
        if map.key_size() > most {
            let message = format!(
                "these keys take {} bytes; there is room for {most}",
                map.key_size()
            );
            let hint = "limit texts: str(p, 64)";
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        self.globals.maps.push(map.clone());
        Ok(map)
    }

    /// The number of the next map. One that a session has let go of leaves its number behind.
    fn next_map(&self) -> u32 {
        let taken = |number: &u32| self.globals.maps.iter().any(|map| map.number == *number);
        (0..state::MOST_MAPS)
            .find(|number| !taken(number))
            .unwrap_or(state::MOST_MAPS)
    }

    /// How many keys a new map has room for.
    fn entries(&self, name: &str, keys: &[FieldType], value: &ValueKind) -> u32 {
        let hidden = MapType::is_hidden_name(name);
        let declared = self.globals.declared.get(name).map(|map| map.entries);
        match declared.or(self.globals.max_map_keys) {
            _ if keys.is_empty() && value.is_per_cpu() && self.globals.rounds => GENERATIONS,
            _ if keys.is_empty() => 1,
            Some(most) if !hidden => most.max(1),
            _ => MapType::fitting_entries(value.size()),
        }
    }

    fn agree_on_keys(&mut self, map: &MapType, keys: &[Expr], span: Span) -> Checked<()> {
        if map.keys.len() != keys.len() {
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
                FieldType::Text { size } => key.ty.is_text() && room(key) <= *size,
                FieldType::Stack { space, max } => {
                    matches!(&key.ty, Type::Stack { space: own, max: most, .. } if own == space && most == max)
                }
                FieldType::Composite(_)
                | FieldType::Array { .. }
                | FieldType::Named(_)
                | FieldType::Buffer { .. }
                | FieldType::HeldStack(_) => !key.ty.is_scalar() && !key.ty.is_text(),
                _ => key.ty.is_scalar(),
            };
            let grows = self.globals.rounds && key.ty.is_text();
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

    /// The map with what it holds now known; an error where that contradicts its first use.
    fn agree_on_value(&mut self, map: MapType, kind: &ValueKind, span: Span) -> Checked<MapType> {
        let known = !self
            .globals
            .unwritten
            .iter()
            .any(|(number, _)| *number == map.number);
        let agreed = match (&map.value, kind) {
            (ValueKind::Text { size }, ValueKind::Text { size: other }) => other <= size,
            (ValueKind::Gathered(a), ValueKind::Gathered(b)) => a.agrees_with(b),
            (ValueKind::Scalar(_), ValueKind::Scalar(_)) => true,
            (ValueKind::Whole(a), ValueKind::Whole(b)) => a == b,
            _ => false,
        };
        if !agreed && !self.globals.open.contains(&map.number) {
            let first = if known { "since" } else { "as it was read in" };
            let message = format!(
                "{} holds {} here, but {} {first} its first use in {}",
                map.title(),
                held_words(kind),
                held_words(&map.value),
                map.first
            );
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
            value: kind.clone(),
            ..map
        };
        let known = self.globals.maps.iter_mut().find(|one| one.number == map.number);
        if let Some(entry) = known {
            entry.clone_from(&map);
        }
        Ok(map)
    }

    fn in_words(&self, key: &Expr) -> String {
        match &key.ty {
            Type::Text { .. } | Type::String { .. } => format!("a text of up to {} bytes", room(key)),
            ty => self.describe(ty),
        }
    }
}

/// The type of a key as it is kept.
fn key_type(key: &Expr) -> Type {
    match &key.ty {
        Type::String { max } => Type::Text { size: max + 1 },
        Type::Text { .. } => match &key.kind {
            ExprKind::Text(known) => Type::Text {
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
    match is_literal(key) {
        true => key.ty.clone(),
        false => key_type(key),
    }
}

/// Keys; those of a tuple one by one.
fn flat<'a>(keys: &[&'a ast::Expr]) -> Vec<&'a ast::Expr> {
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

/// Bytes that a map gives a text whose first use this is.
fn text_size(text: &Expr) -> u32 {
    match &text.kind {
        ExprKind::Text(bytes) => (bytes.len() as u32).max(TEXT),
        _ => room(text),
    }
    .next_multiple_of(8)
}

/// A scalar's type where it takes 8 bytes.
fn scalar_type(ty: &Type) -> FieldType {
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
        _ => FieldType::Integer {
            size: 8,
            signed: true,
            base: kestrel_trace::layout::Base::Decimal,
        },
    }
}

/// The type of what is read from a map of scalars.
pub(super) fn read_type(ty: &FieldType) -> Type {
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

/// The type of what is gathered as one number.
pub(super) fn gathered_type(gathered: &Gathered, number: AsNumber) -> Type {
    let own = number == AsNumber::Sum { signed: true };
    Type::integer(8, gathered.signed || own)
}

fn negated(value: Expr) -> Expr {
    let span = value.span;
    if let Some(known) = value.constant() {
        return constant(known.wrapping_neg(), Type::I64, span);
    }
    let kind = ExprKind::Unary {
        op: UnaryOp::Negate,
        value: Box::new(value),
    };
    Expr::new(kind, Type::I64, span)
}

fn words(ty: &FieldType) -> String {
    match ty {
        FieldType::Text { size } => format!("a text of up to {size} bytes"),
        FieldType::Stack {
            space: Space::Kernel,
            max,
        } => format!("kstack({max})"),
        FieldType::Stack { max, .. } => format!("ustack({max})"),
        _ => "a number".to_owned(),
    }
}

fn held_words(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Scalar(_) => "a number".to_owned(),
        ValueKind::Text { size } => format!("a text of up to {size} bytes"),
        ValueKind::Whole(_) => "values of several parts".to_owned(),
        ValueKind::Gathered(gathered) => gathered.function.described(gathered),
    }
}
