//! Statements that change a map: assignments, aggregations, `delete`, `clear` and `zero`.

use super::place::Usage;
use crate::builtin;
use crate::check::aggregation::PendingAggregation;
use crate::check::checker::{Checked, Checker, Reported};
use crate::check::compare::ternary_as_string;
use crate::check::shape::{Stored, is_named_number};
use crate::check::tree::{Expr, ExprKind, MapChange, MapPlace, Statement, StatementKind, Type, UnaryOp};
use crate::check::value::{constant, scaled, widened};
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;
use kestrel_trace::aggregate::{MapType, ValueKind};
use kestrel_trace::layout::FieldType;
use std::collections::HashMap;
use std::sync::Arc;

impl Checker<'_> {
    /// `@x[keys] = value`, `@x[keys] += value`.
    pub(in crate::check) fn assign_map(
        &mut self,
        name: &str,
        keys: &[ast::Expr],
        op: Option<ast::BinaryOp>,
        target: &ast::Expr,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<StatementKind> {
        let keys: Vec<&ast::Expr> = keys.iter().collect();
        self.globals.shapes.notes_store(name);
        if let (None, ast::ExprKind::Call { name: function, args }) = (op, &value.kind) {
            let usage = builtin::used(&function.node, function.span, Some(args), value.span);
            if let Some(aggregation) = builtin::aggregation(self, &usage) {
                let PendingAggregation {
                    mut aggregation,
                    value,
                } = aggregation?;
                let shape = self.globals.shapes.maps.entry(name.to_owned()).or_default();
                // Of signed and unsigned values the numbers are signed, whichever come first.
                if let Some(Stored::Aggregation(known)) = &shape.value
                    && known.agrees_with(&aggregation)
                {
                    aggregation.signed |= known.signed;
                }
                shape.value = Some(Stored::Aggregation(aggregation.clone()));
                let kind = ValueKind::Aggregation(aggregation);
                let place = self.map_place(name, &keys, Some(&kind), &kind, Usage::Writes, target.span)?;
                return Ok(StatementKind::Map(place, MapChange::Aggregate(value)));
            }
        }
        if let (None, ast::ExprKind::Block(block)) = (op, &value.kind)
            && let Some(last) = &block.value
            && ends_in_aggregation(last)
        {
            return self.aggregated_in_block(target, block, last, span);
        }
        let change = match op {
            Some(ast::BinaryOp::Add) => MapChange::Add(self.added(name, value)?),
            Some(ast::BinaryOp::Subtract) => MapChange::Add(negated(self.added(name, value)?)),
            Some(op) => MapChange::Set(self.binary(op, target, value, span)?),
            None => {
                let kept = self.phrased(
                    value.span,
                    span,
                    |checker| checker.kept(value),
                    |refused| refused.in_map(name),
                )?;
                MapChange::Set(self.no_aggregation(name, value, kept, span)?)
            }
        };
        self.stores(name, &keys, change, (target.span, span))
    }

    /// `@x[keys] = { statement…; count() }`: the statements, and the last of them.
    fn aggregated_in_block(
        &mut self,
        target: &ast::Expr,
        block: &ast::ValueBlock,
        last: &ast::Expr,
        span: Span,
    ) -> Checked<StatementKind> {
        self.scopes.push(HashMap::new());
        let mut all = Vec::new();
        for statement in &block.statements {
            let _reported = self.statement(statement, &mut all);
        }
        let stored = self.assign(target, None, last, span);
        self.scopes.pop();
        all.push(Statement { kind: stored?, span });
        Ok(StatementKind::Block(all))
    }

    /// Refuses, in scripts, to store another map's aggregation instead of its number: the copy would not go on aggregating.
    fn no_aggregation(&mut self, name: &str, written: &ast::Expr, value: Expr, span: Span) -> Checked<Expr> {
        let ast::ExprKind::Map { name: from, .. } = &written.kind else {
            return Ok(value);
        };
        let map = self.globals.map(from).filter(|_| self.globals.infers_types);
        let Some((map, aggregation)) = map.and_then(|map| Some((map, map.value.aggregation()?))) else {
            return Ok(value);
        };
        let (title, function) = (map.title(), aggregation.function.name());
        let message = format!(
            "Map value '{function}_t' cannot be assigned from one map to another. The function that returns this type must be called directly e.g. `@{name} = {function}();`."
        );
        let number = match aggregation.function.as_record() {
            [] => format!("(int64){title}"),
            [(part, _), ..] => format!("{title}.{part}"),
        };
        let hint =
            format!("aggregate in both: @{name} = {function}(…), or store the number: @{name} = {number}");
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// The sum that `@name += value` stores: a number, or an address moved by `value` elements.
    fn added(&mut self, name: &str, value: &ast::Expr) -> Checked<Expr> {
        let held = self
            .globals
            .map(name)
            .and_then(|map| self.globals.held.get(&map.number));
        let Some(Type::Pointer(pointer)) = held else {
            if let Some(map) = self.globals.map(name).cloned() {
                self.known_unit(&map, value.span)?;
            }
            return self.phrased(
                value.span,
                value.span,
                |checker| checker.as_number(value),
                |refused| format!("Type mismatch for '+': comparing int64 with {}", refused.whole),
            );
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

    /// `@x[keys] = value` or `@x[keys] += value` with a value that is checked already; with the places of the map and of the whole.
    pub(in crate::check) fn stores(
        &mut self,
        name: &str,
        keys: &[&ast::Expr],
        change: MapChange,
        (target, span): (Span, Span),
    ) -> Checked<StatementKind> {
        let (MapChange::Set(stored) | MapChange::Add(stored)) = &change else {
            return Err(Reported);
        };
        let holding = self.holding(&ternary_as_string(stored.clone()), true);
        let holding = holding?;
        let stored_type = self.join_value_type(name, holding.clone());
        if stored_type.is_string() && is_named_number(&holding) && self.globals.infers_types {
            let text = self.name_as_string(stored.clone());
            return self.stores(name, keys, MapChange::Set(text), (target, span));
        }
        // The map holds numbers in 8 bytes; the narrow type is what `sizeof` and messages say of it.
        let narrow = self.holding(&ternary_as_string(stored.clone()), false)?;
        let held = self.globals.shapes.notes_stored(name, narrow);
        if let MapChange::Set(value) = &change {
            self.warn_of_implicit_cast(value, &held);
        }
        // In scripts a bool is no integer.
        let scripts = self.globals.infers_types;
        let class = |ty: &Type| (ty.is_scalar(), ty.is_string(), scripts && *ty == Type::Bool);
        if class(&holding) != class(&stored_type) {
            let known = self.globals.shapes.stored_type(name).cloned();
            let known = known
                .filter(|known| class(known) == class(&stored_type))
                .unwrap_or(stored_type);
            let message = self.mismatch(&format!("@{name}"), stored, &known);
            let found = Diagnostic::error(self.place_of_mismatch(stored, span), message);
            return Err(self.report(found.hint("keep it in another map")));
        }
        let kind = self.value_kind_of(stored, &stored_type)?;
        let place = self.map_place(name, keys, Some(&kind), &kind, Usage::Writes, target)?;
        if let ValueKind::Whole(_) = &place.map.value {
            self.globals.held.insert(place.map.number, stored_type.clone());
            let MapChange::Set(value) = change else {
                return Err(self.error(span, "only numbers can be added to"));
            };
            let Some(fitted) = self.fitted_to(value.clone(), &stored_type) else {
                let message = self.mismatch(&place.map.title(), &value, &stored_type);
                let found = Diagnostic::error(self.place_of_mismatch(&value, span), message);
                return Err(self.report(found.hint("keep it in another map")));
            };
            return Ok(StatementKind::Map(place, MapChange::Set(fitted)));
        }
        self.record_value_type(&place.map, &change)?;
        Ok(StatementKind::Map(place, change))
    }

    /// An aggregation without a map's name: it has a map of its own, by the event's number.
    pub(crate) fn bare_aggregation(
        &mut self,
        pending: PendingAggregation,
        span: Span,
    ) -> Checked<StatementKind> {
        let PendingAggregation { aggregation, value } = pending;
        let function = aggregation.function.name();
        let kind = ValueKind::Aggregation(aggregation);
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

    /// `delete(@x[keys])` as a value: whether the key existed.
    pub(crate) fn deleted(&mut self, change: StatementKind, span: Span) -> Checked<Expr> {
        let StatementKind::Map(place, _) = &change else {
            return Err(self.error(span, "this has no value"));
        };
        let always = place.keys.is_empty() && (!place.map.marks || place.map.entries > 1);
        let there = match always {
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

    /// `clear(@x)`, and `zero(@x)`, which keeps the keys.
    pub(crate) fn clear_map(&mut self, name: &str, zeroed: bool, span: Span) -> Checked<StatementKind> {
        self.notes_cleared(name, zeroed);
        let map = Arc::new(self.known_map(name, span)?);
        self.only_with_keys(&map, "clear()", span)?;
        let keys = Vec::new();
        let whole = (*map).clone();
        let zeroed = zeroed && self.globals.infers_types;
        let change = StatementKind::Map(MapPlace { map, keys }, MapChange::Clear { zeroed });
        if !self.globals.infers_types {
            return Ok(change);
        }
        // The reader learns that older generations are not printed any more.
        let generation = self.generation_of(whole, span);
        let verb = if zeroed { "zeroed" } else { "cleared" };
        let cleared = self.output(verb, name, vec![generation], span)?;
        let all = [change, cleared].map(|kind| Statement { kind, span });
        Ok(StatementKind::Block(all.into()))
    }

    /// Whether a map may be emptied: an aggregation without keys has one value per CPU, of which a handler reaches its own only.
    fn only_with_keys(&mut self, map: &MapType, what: &str, span: Span) -> Checked<()> {
        if !map.keys.is_empty() || !map.value.is_per_cpu() || map.entries > 1 {
            return Ok(());
        }
        let message = format!(
            "{what} in a handler of trace, record or a table needs keys, and {0} has none: each CPU has a value of {0} of its own, and a handler reaches only that of the CPU that it runs on",
            map.title()
        );
        let hint = format!(
            "give it a key, {}[0], or run the text as a script (`kestrel run`), where the values of all CPUs begin anew",
            map.title()
        );
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }
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

/// Whether a value is an aggregation, or a block that ends in one.
fn ends_in_aggregation(value: &ast::Expr) -> bool {
    match &value.kind {
        ast::ExprKind::Call { name, .. } => builtin::is_aggregation(&name.node),
        ast::ExprKind::Block(block) => block.value.as_deref().is_some_and(ends_in_aggregation),
        _ => false,
    }
}
