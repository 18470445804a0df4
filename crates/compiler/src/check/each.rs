//! Loops over the elements of a map, over more numbers than a program repeats by itself, and as long as a condition holds.

use super::checker::{Checked, Checker};
use super::shape::{held_stack, join_integers};
use super::tree::{
    Access, BinaryOp, CompareOp, Expr, ExprKind, LoopRange, MapPlace, Statement, StatementKind, Type,
};
use super::value::{comparison, constant, narrowed, operation, room, widened};
use super::walk::MemoryPlace;
use crate::lang::ast::{self, Block, Span, Spanned};
use crate::lang::diag::Diagnostic;
use kestrel_trace::aggregate::{MapType, ValueKind};
use kestrel_trace::layout::FieldType;
use std::collections::HashMap;
use std::sync::Arc;

/// First bytes of a string that is looked for which are compared by instructions of their own; a loop compares further ones.
const FIRST_SOUGHT: u32 = 128;
/// Repetitions that a program makes by itself: the verifier goes through each.
const BY_ITSELF: i64 = 256;

impl Checker<'_> {
    /// `for ($name : from..to) { … }`.
    pub(super) fn count_loop(
        &mut self,
        name: &Spanned<String>,
        over: &ast::ForRange,
        body: &Block,
        span: Span,
    ) -> Checked<StatementKind> {
        let message = format!("Loop declaration shadows existing variable: ${}", name.node);
        self.unshadowed(name, message)?;
        let (from, to) = match over {
            ast::ForRange::Range(from, to) => (from, to),
            ast::ForRange::Map(map) => return self.map_loop(name, map, body),
        };
        let (from, to) = (
            self.range_end(from, "start", span),
            self.range_end(to, "end", span),
        );
        let (from, to) = (from?, to?);
        // As in bpftrace it is as wide as what it goes from and to, unless more is stored in it.
        let own_type = match (self.globals.infers_types, &from.ty, &to.ty) {
            (true, Type::Integer { .. }, Type::Integer { .. }) => {
                let (from, to) = (self.holding(&from, false)?, self.holding(&to, false)?);
                join_integers(&from, &to)
            }
            _ => Type::I64,
        };
        let (from, to) = (widened(from), widened(to));
        if Self::wants_helper(&from, &to) {
            let mut body = |checker: &mut Self, number: Expr| {
                checker.scopes.push(HashMap::new());
                let own = checker.new_variable(&name.node, own_type.clone(), name.span);
                let value = narrowed(number, checker.variable_type(own), span);
                let mut inner = vec![Statement {
                    kind: StatementKind::Set { variable: own, value },
                    span,
                }];
                inner.extend(checker.looped(body));
                checker.scopes.pop();
                inner
            };
            let all = self.counted_by_helper((from, to), &mut body, span);
            return Ok(StatementKind::Block(all));
        }
        self.scopes.push(HashMap::new());
        // The end is computed once; the body may change its own copy of the number.
        let end = self.hidden_variable("end", Type::I64);
        let number = self.hidden_variable("number", Type::I64);
        let own = self.new_variable(&name.node, own_type, name.span);
        let value = |id| Expr::new(ExprKind::Variable(id), Type::I64, span);
        let set = |variable, value| Statement {
            kind: StatementKind::Set { variable, value },
            span,
        };
        let copy = narrowed(value(number), self.variable_type(own), span);
        let mut inner = vec![set(own, copy)];
        inner.extend(self.looped(body));
        self.scopes.pop();
        let one = constant(1, Type::I64, span);
        let next = operation(BinaryOp::Add, Type::I64, value(number), one, span);
        let condition = comparison(CompareOp::Less, true, value(number), value(end), span);
        let repeat = StatementKind::While {
            condition,
            body: inner,
            step: vec![set(number, next)],
        };
        let all = [set(end, to), set(number, from), Statement { kind: repeat, span }];
        Ok(StatementKind::Block(all.into()))
    }

    /// One end of a range.
    fn range_end(&mut self, end: &ast::Expr, which: &str, span: Span) -> Checked<Expr> {
        let value = self.operand(end)?;
        let is_integer = value.ty.is_scalar() && !(self.globals.infers_types && value.ty == Type::Bool);
        if is_integer {
            return Ok(value);
        }
        let message = format!("Loop range requires an integer for the {which} value");
        let hint = format!("this is {}", self.describe(&value.ty));
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// `for ($name : @map) { … }`: `$name` is a tuple of the key and the value.
    fn map_loop(&mut self, name: &Spanned<String>, over: &ast::Expr, body: &Block) -> Checked<StatementKind> {
        let ast::ExprKind::Map { name: map, keys } = &over.kind else {
            let message = "expected map or range in for loop";
            let hint = "a loop goes over a map, or over numbers: for ($x : @map), for ($x : 0..10)";
            let wrong = Diagnostic::error(over.span, message).hint(hint);
            return Err(self.report(wrong.known_as(over.span, format!("syntax: {message}"))));
        };
        if let Some(key) = keys.first() {
            return Err(self.error(key.span, "a loop goes over a whole map"));
        }
        self.notes_use(map);
        let map = Arc::new(self.known_map(map, over.span)?);
        if map.keys.is_empty() {
            let message = format!(
                "{} has no explicit keys (scalar map), and cannot be used for iteration",
                map.title()
            );
            return Err(self.error(over.span, message));
        }
        if let Some(aggregation) = map.value.aggregation()
            && aggregation.function.as_number().is_none()
            && aggregation.function.as_record().is_empty()
        {
            let message = format!(
                "Loop expression does not support type: {}_t",
                aggregation.function.name()
            );
            let hint = "what such a map holds is printed only: print(@map)";
            return Err(self.report(Diagnostic::error(over.span, message).hint(hint)));
        }
        let keys = self.element_keys(&map, over.span)?;
        let value = self.element_value(&map, &keys, over.span)?;
        // As in bpftrace: keys of several parts are one tuple, `$kv.0`.
        let key = match <[Expr; 1]>::try_from(keys) {
            Ok([only]) => only,
            Err(keys) => {
                let keys = keys.into_iter().map(|key| (String::new(), key)).collect();
                self.tuple(keys, over.span)?
            }
        };
        let pair = self.tuple(vec![(String::new(), key), (String::new(), value)], over.span)?;
        self.scopes.push(HashMap::new());
        let ty = self.holding(&pair, true)?;
        let own = self.new_variable(&name.node, ty.clone(), name.span);
        let value = self
            .fitted_to(pair.clone(), &self.variable_type(own))
            .unwrap_or(pair);
        let mut inner = vec![Statement {
            kind: StatementKind::Set { variable: own, value },
            span: over.span,
        }];
        inner.extend(self.looped(body));
        self.scopes.pop();
        Ok(StatementKind::ForEach {
            over: LoopRange::Map(map),
            body: inner,
        })
    }

    /// Has stacks in a map's keys kept with their frames, as those in values are: the kernel's number of a stack means nothing to a handler.
    fn keeps_frames(&mut self, name: &str) {
        let shape = self.globals.shapes.maps.get_mut(name);
        for key in shape.and_then(|shape| shape.keys.as_mut()).into_iter().flatten() {
            if let Type::Stack { space, max, mode } = key {
                *key = held_stack(*space, *max, *mode);
            }
        }
    }

    /// The keys of the element that a loop is at.
    fn element_keys(&mut self, map: &MapType, span: Span) -> Checked<Vec<Expr>> {
        if self.globals.infers_types {
            self.keeps_frames(&map.name);
        }
        let shapes = self.globals.shapes.maps.get(&map.name);
        let known = shapes
            .and_then(|shape| shape.keys.clone())
            .filter(|known| known.len() == map.keys.len());
        let mut keys = Vec::new();
        for (place, (kept, offset)) in map.keys.iter().zip(map.key_offsets()).enumerate() {
            let ty = match (kept, known.as_ref().and_then(|known| known.get(place))) {
                (FieldType::CharArray { size }, _) => Type::CharArray { size: *size },
                (_, Some(ty)) => ty.clone(),
                (kept, None) if kept.integer_size().is_some() => super::map::read_type(kept),
                (FieldType::Stack { .. }, None) => {
                    return Err(self.not_yet(span, "a loop over a map whose keys are stacks"));
                }
                _ => return Err(self.not_yet(span, "a loop over a map of keys like these")),
            };
            let spot = MemoryPlace {
                address: Expr::new(ExprKind::ElementKey, Type::hexadecimal(8), span),
                offset: i64::from(offset),
                access: Access::Context,
            };
            self.globals.shapes.notes_read(&ty);
            keys.push(self.value_at(spot, ty, span)?);
        }
        Ok(keys)
    }

    /// The value of the element that a loop is at.
    fn element_value(&mut self, map: &Arc<MapType>, keys: &[Expr], span: Span) -> Checked<Expr> {
        let ty = match &map.value {
            ValueKind::Scalar(ty) => match self.globals.held.get(&map.number) {
                Some(Type::Pointer(pointer)) => Type::Pointer(*pointer),
                _ => super::map::read_type(ty),
            },
            ValueKind::CharArray { size } => Type::CharArray { size: *size },
            ValueKind::Whole(_) => match self.globals.held.get(&map.number).cloned() {
                Some(ty) => ty,
                None => return Err(self.error(span, "what this map holds is not known here")),
            },
            ValueKind::Aggregation(_) => {
                let place = MapPlace {
                    map: map.clone(),
                    keys: keys.to_vec(),
                };
                return self.aggregation_at(&place, span);
            }
        };
        self.globals.shapes.notes_read(&ty);
        // The helper's callback is given the element itself, which programs may read without a copy.
        let spot = MemoryPlace {
            address: Expr::new(ExprKind::ElementValue, Type::hexadecimal(8), span),
            offset: 0,
            access: Access::Context,
        };
        self.value_at(spot, ty, span)
    }

    /// `len(@map)`: how many keys it has now.
    pub(crate) fn map_length(&mut self, name: &str, span: Span) -> Checked<Expr> {
        self.notes_use(name);
        let map = Arc::new(self.known_map(name, span)?);
        if map.keys.is_empty() {
            let message = "call to len() expects a map with explicit keys (non-scalar map)";
            return Err(self.error(span, message));
        }
        let count = self.hidden_variable("length", Type::I64);
        let value = Expr::new(ExprKind::Variable(count), Type::I64, span);
        let one = constant(1, Type::I64, span);
        let more = operation(BinaryOp::Add, Type::I64, value.clone(), one, span);
        let set = |value| Statement {
            kind: StatementKind::Set {
                variable: count,
                value,
            },
            span,
        };
        let counted = StatementKind::ForEach {
            over: LoopRange::Map(map),
            body: vec![set(more)],
        };
        let kind = ExprKind::Sequence {
            statements: vec![
                set(constant(0, Type::I64, span)),
                Statement { kind: counted, span },
            ],
            value: Box::new(value),
        };
        Ok(Expr::new(kind, Type::I64, span))
    }

    /// `while (condition) { body }`: how often is not known, so a helper repeats it. The verifier looks at its body a few times, whatever the condition is.
    pub(super) fn endless(&mut self, condition: Expr, body: Vec<Statement>) -> StatementKind {
        // A loop that reaches the limit is counted in the map of failures, which a persistent session has no reader for.
        self.globals.divides |= !self.globals.persistent;
        let span = condition.span;
        let leave = StatementKind::If {
            condition,
            then: Vec::new(),
            otherwise: vec![Statement {
                kind: StatementKind::Break,
                span,
            }],
        };
        let mut all = vec![Statement { kind: leave, span }];
        all.extend(body);
        StatementKind::ForEach {
            over: LoopRange::Endless,
            body: all,
        }
    }

    /// Where a text that is not known now begins in another, or -1: a helper goes over the places.
    pub(crate) fn find_unknown(&mut self, text: Expr, part: Expr, span: Span) -> Checked<Expr> {
        let (long, short) = (room(&text), room(&part));
        let first = short.min(FIRST_SOUGHT);
        let set = |variable, value| Statement {
            kind: StatementKind::Set { variable, value },
            span,
        };
        // The part that is read ends within the variable. Its size is a power of two where numbers that the verifier knows nothing of lead into it.
        let size = match short > first {
            true => (long + short + 1).next_power_of_two(),
            false => long + short + 1,
        };
        let all = self.hidden_variable("text", Type::CharArray { size });
        let sought = self.hidden_variable("part", Type::CharArray { size: short + 1 });
        let found = self.hidden_variable("found", Type::I64);
        let at = |id, size, offset: Option<Expr>, access| {
            let address = Expr::new(ExprKind::VariableAddress(id), Type::hexadecimal(8), span);
            let address = match offset {
                Some(offset) => operation(BinaryOp::Add, Type::U64, address, offset, span),
                None => address,
            };
            let kind = ExprKind::Bytes {
                address: Box::new(address),
                offset: 0,
                size,
                access,
            };
            Box::new(Expr::new(kind, Type::CharArray { size }, span))
        };
        let place = self.hidden_variable("place", Type::I64);
        let value = |id| Expr::new(ExprKind::Variable(id), Type::I64, span);
        let key = || Expr::new(ExprKind::ElementKey, Type::I64, span);
        let begins = ExprKind::StringBegins {
            text: at(all, first + 1, Some(key()), Access::Kernel),
            with: at(sought, first + 1, None, Access::Context),
            bytes: first,
        };
        let when = |condition, then| Statement {
            kind: StatementKind::If {
                condition,
                then,
                otherwise: Vec::new(),
            },
            span,
        };
        let leave = || Statement {
            kind: StatementKind::Break,
            span,
        };
        let mut here = vec![set(found, value(place)), leave()];
        if short > first {
            let number = |number: u32| constant(number.into(), Type::I64, span);
            let plus = |left, right| operation(BinaryOp::Add, Type::I64, left, right, span);
            let within = |offset| operation(BinaryOp::And, Type::I64, offset, number(size - 1), span);
            let byte = |id, offset| {
                let address = Expr::new(ExprKind::VariableAddress(id), Type::hexadecimal(8), span);
                let kind = ExprKind::Load {
                    address: Box::new(operation(BinaryOp::Add, Type::U64, address, offset, span)),
                    offset: 0,
                    size: 1,
                    signed: false,
                    access: Access::Kernel,
                };
                widened(Expr::new(kind, Type::integer(1, false), span))
            };
            let differs = self.hidden_variable("differs", Type::I64);
            let wanted = self.hidden_variable("wanted", Type::I64);
            let is = |op, left, right| comparison(op, false, left, right, span);
            let behind = || plus(number(first), key());
            let compared = StatementKind::ForEach {
                over: LoopRange::Times(number(short - first)),
                body: vec![
                    set(wanted, byte(sought, behind())),
                    when(is(CompareOp::Equal, value(wanted), number(0)), vec![leave()]),
                    when(
                        is(
                            CompareOp::NotEqual,
                            byte(all, within(plus(value(place), behind()))),
                            value(wanted),
                        ),
                        vec![set(differs, number(1)), leave()],
                    ),
                ],
            };
            // Behind the end of the string that is looked for are zeroes.
            let is_longer = is(CompareOp::NotEqual, byte(sought, number(first - 1)), number(0));
            let rest = Statement { kind: compared, span };
            here = vec![
                set(differs, number(0)),
                when(is_longer, vec![rest]),
                when(is(CompareOp::Equal, value(differs), number(0)), here),
            ];
        }
        let times = constant(u64::from(long.max(1)), Type::I64, span);
        let search = StatementKind::ForEach {
            over: LoopRange::Times(times),
            body: vec![set(place, key()), when(Expr::new(begins, Type::Bool, span), here)],
        };
        let none = constant(u64::MAX, Type::I64, span);
        let statements = vec![
            set(all, text),
            set(sought, part),
            set(found, none),
            Statement { kind: search, span },
        ];
        let value = Box::new(value(found));
        Ok(Expr::new(
            ExprKind::Sequence { statements, value },
            Type::I64,
            span,
        ))
    }

    /// Whether a loop over these numbers is one that a helper makes.
    pub(super) fn wants_helper(from: &Expr, to: &Expr) -> bool {
        match (from.constant(), to.constant()) {
            (Some(from), Some(to)) => to.cast_signed().saturating_sub(from.cast_signed()) > BY_ITSELF,
            _ => true,
        }
    }

    /// `for ($own : from..to) { body }` by a helper: `body` begins with what sets its number.
    pub(super) fn counted_by_helper(
        &mut self,
        (from, to): (Expr, Expr),
        set_from: &mut dyn FnMut(&mut Self, Expr) -> Vec<Statement>,
        span: Span,
    ) -> Vec<Statement> {
        // As in `endless`: a range can be longer than the kernel repeats anything.
        let length = match (from.constant(), to.constant()) {
            (Some(from), Some(to)) => to.cast_signed().saturating_sub(from.cast_signed()),
            _ => i64::MAX,
        };
        self.globals.divides |= length > LoopRange::MAX_INDEX && !self.globals.persistent;
        let first = self.hidden_variable("first", Type::I64);
        let value = |id| Expr::new(ExprKind::Variable(id), Type::I64, span);
        let distance = operation(BinaryOp::Subtract, Type::I64, to, value(first), span);
        let none = constant(0, Type::I64, span);
        let count = self.hidden_variable("count", Type::I64);
        let any = comparison(CompareOp::Greater, true, value(count), none.clone(), span);
        let times = ExprKind::Ternary {
            condition: Box::new(any),
            then: Some(Box::new(value(count))),
            otherwise: Box::new(none),
        };
        let at = Expr::new(ExprKind::ElementKey, Type::I64, span);
        let number = operation(BinaryOp::Add, Type::I64, value(first), at, span);
        let body = set_from(self, number);
        let set = |variable, value| Statement {
            kind: StatementKind::Set { variable, value },
            span,
        };
        let repeat = StatementKind::ForEach {
            over: LoopRange::Times(Expr::new(times, Type::I64, span)),
            body,
        };
        vec![
            set(first, from),
            set(count, distance),
            Statement { kind: repeat, span },
        ]
    }
}
