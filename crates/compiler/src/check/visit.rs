//! Walks over a checked handler: its statements, and the parts of each statement and expression. A new kind of statement or expression lists its parts here, once for
//! all passes that search handlers.

use super::tree::{CheckedProbe, Expr, ExprKind, LoopRange, MapChange, MapPlace, Statement, StatementKind};
use crate::lang::ast::Span;

impl CheckedProbe {
    /// All statements of the body, reached or not; a statement comes before those inside of it.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        let mut all = Vec::new();
        self.predicate.iter().for_each(|expr| inside(expr, &mut all));
        collect(&self.body, &mut all);
        all.into_iter()
    }

    /// Whether the predicate begins with statements somewhere, which set variables.
    pub(crate) fn has_statements_in_predicate(&self) -> bool {
        let mut all = Vec::new();
        self.predicate.iter().for_each(|expr| inside(expr, &mut all));
        !all.is_empty()
    }
}

impl CheckedProbe {
    /// All expressions, keys of maps among them; an expression comes before those inside of it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let mut all = Vec::new();
        self.predicate
            .iter()
            .for_each(|expr| expressions_in(expr, &mut all));
        for statement in self.statements() {
            let keys = statement.kind.place().into_iter().flat_map(|place| &place.keys);
            for expr in statement.kind.expressions().into_iter().chain(keys) {
                expressions_in(expr, &mut all);
            }
        }
        all.into_iter()
    }
}

/// Adds an expression and those inside of it, except those in statements inside of it.
fn expressions_in<'t>(expr: &'t Expr, all: &mut Vec<&'t Expr>) {
    all.push(expr);
    let keys = expr.place().into_iter().flat_map(|place| &place.keys);
    for inner in expr.operands().into_iter().chain(keys) {
        expressions_in(inner, all);
    }
}

/// Statements, and those inside of them.
pub(crate) fn statements_of(statements: &[Statement]) -> Vec<&Statement> {
    let mut all = Vec::new();
    collect(statements, &mut all);
    all
}

fn collect<'t>(statements: &'t [Statement], all: &mut Vec<&'t Statement>) {
    for statement in statements {
        all.push(statement);
        for expr in statement.kind.expressions() {
            inside(expr, all);
        }
        for key in statement.kind.place().into_iter().flat_map(|place| &place.keys) {
            inside(key, all);
        }
        for block in statement.kind.blocks() {
            collect(block, all);
        }
    }
}

/// The statements inside of an expression.
fn inside<'t>(expr: &'t Expr, all: &mut Vec<&'t Statement>) {
    if let ExprKind::Sequence { statements, .. } = &expr.kind {
        collect(statements, all);
    }
    for operand in expr.operands() {
        inside(operand, all);
    }
    for key in expr.place().into_iter().flat_map(|place| &place.keys) {
        inside(key, all);
    }
}

/// The blocks of statements inside of a statement; `$none` is a block without any.
macro_rules! blocks {
    ($kind:expr, $none:expr) => {
        match $kind {
            StatementKind::If { then, otherwise, .. } => [then, otherwise],
            StatementKind::Block(statements) | StatementKind::Handler(statements) => [statements, $none],
            StatementKind::While { body, step, .. } => [body, step],
            StatementKind::ForEach { body, .. } => [body, $none],
            StatementKind::Set { .. }
            | StatementKind::Record(_)
            | StatementKind::Map(..)
            | StatementKind::Act(_)
            | StatementKind::Perform { .. }
            | StatementKind::Break
            | StatementKind::Continue
            | StatementKind::Return => [$none, $none],
        }
    };
}

/// The expressions of a statement; `$iter` is `iter` or `iter_mut`.
macro_rules! expressions {
    ($kind:expr, $iter:ident) => {
        match $kind {
            StatementKind::Set { value, .. } => vec![value],
            StatementKind::If { condition, .. } | StatementKind::While { condition, .. } => vec![condition],
            StatementKind::Record(record) => record.values.$iter().collect(),
            StatementKind::Map(_, change) => match change {
                MapChange::Set(value) | MapChange::Add(value) | MapChange::Aggregate(Some(value)) => {
                    vec![value]
                }
                MapChange::Aggregate(None) | MapChange::Delete | MapChange::Clear { .. } => Vec::new(),
            },
            StatementKind::Perform { operands, .. } => operands.$iter().collect(),
            StatementKind::ForEach {
                over: LoopRange::Times(count),
                ..
            } => vec![count],
            StatementKind::ForEach {
                over: LoopRange::Map(_) | LoopRange::Endless,
                ..
            }
            | StatementKind::Act(_)
            | StatementKind::Block(_)
            | StatementKind::Handler(_)
            | StatementKind::Break
            | StatementKind::Continue
            | StatementKind::Return => Vec::new(),
        }
    };
}

/// The operands of an expression; `$iter` is `iter` or `iter_mut`, `$deref` `as_deref` or `as_deref_mut`.
macro_rules! operands {
    ($kind:expr, $all:ident, $iter:ident, $deref:ident) => {
        match $kind {
            ExprKind::Load { address: inner, .. }
            | ExprKind::Bytes { address: inner, .. }
            | ExprKind::BitField { value: inner, .. }
            | ExprKind::Unary { value: inner, .. }
            | ExprKind::IsTarget(inner)
            | ExprKind::SwapBytes { value: inner, .. }
            | ExprKind::Sequence { value: inner, .. }
            | ExprKind::StringGlob { text: inner, .. }
            | ExprKind::StringFind { text: inner, .. }
            | ExprKind::Convert { value: inner, .. } => $all.push(inner),
            ExprKind::ReadString { address, length, .. } => {
                $all.push(address);
                $all.extend(length.$deref());
            }
            ExprKind::ReadMemory {
                address: left,
                length: right,
                ..
            }
            | ExprKind::Binary { left, right, .. }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::Logic { left, right, .. }
            | ExprKind::StringEqual { left, right, .. }
            | ExprKind::BytesEqual { left, right, .. }
            | ExprKind::BytesOrder { left, right, .. }
            | ExprKind::StringBegins {
                text: left,
                with: right,
                ..
            } => {
                $all.push(left);
                $all.push(right);
            }
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                $all.push(condition);
                $all.extend(then.$deref());
                $all.push(otherwise);
            }
            ExprKind::Elements(values)
            | ExprKind::FrameWords(values)
            | ExprKind::Tuple(values)
            | ExprKind::HelperCall { operands: values, .. } => $all.extend(values.$iter()),
            ExprKind::Constant(_)
            | ExprKind::ConstantBytes(_)
            | ExprKind::ContextPointer
            | ExprKind::ElementKey
            | ExprKind::ElementValue
            | ExprKind::Intrinsic(_)
            | ExprKind::Variable(_)
            | ExprKind::VariableAddress(_)
            | ExprKind::MapCopy(..)
            | ExprKind::Parameter(_)
            | ExprKind::Comm
            | ExprKind::Stack { .. }
            | ExprKind::StackCopy { .. }
            | ExprKind::Unwound { .. }
            | ExprKind::MapValue(_)
            | ExprKind::Generation(_)
            | ExprKind::MapAddress(_)
            | ExprKind::Aggregate(..)
            | ExprKind::HasKey(_)
            | ExprKind::EventNumber
            | ExprKind::DividedByZero
            | ExprKind::OutsideOfArray
            | ExprKind::EventIs { .. } => {}
        }
    };
}

impl StatementKind {
    /// The blocks of statements inside of it.
    fn blocks(&self) -> [&[Statement]; 2] {
        blocks!(self, &[])
    }

    fn blocks_mut(&mut self) -> [&mut [Statement]; 2] {
        blocks!(self, &mut [])
    }

    /// The place of the map that it changes.
    pub(crate) fn place(&self) -> Option<&MapPlace> {
        match self {
            Self::Map(place, _) => Some(place),
            _ => None,
        }
    }

    /// The statement's own expressions, without those of statements inside of it and without the keys of a map's place.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        expressions!(self, iter)
    }

    fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        expressions!(self, iter_mut)
    }
}

impl Expr {
    /// The place of the map that it reads.
    pub(crate) fn place(&self) -> Option<&MapPlace> {
        match &self.kind {
            ExprKind::MapValue(place)
            | ExprKind::HasKey(place)
            | ExprKind::Aggregate(place, _)
            | ExprKind::MapCopy(place, _) => Some(place),
            _ => None,
        }
    }

    fn place_mut(&mut self) -> Option<&mut MapPlace> {
        match &mut self.kind {
            ExprKind::MapValue(place)
            | ExprKind::HasKey(place)
            | ExprKind::Aggregate(place, _)
            | ExprKind::MapCopy(place, _) => Some(place),
            _ => None,
        }
    }

    /// Operands of the expression; the keys of a map's place left out.
    pub(crate) fn operands(&self) -> Vec<&Self> {
        let mut all: Vec<&Self> = Vec::new();
        operands!(&self.kind, all, iter, as_deref);
        all
    }

    fn operands_mut(&mut self) -> Vec<&mut Self> {
        let mut all: Vec<&mut Self> = Vec::new();
        operands!(&mut self.kind, all, iter_mut, as_deref_mut);
        all
    }

    /// Says that everything in the expression, statements included, was written at `span`.
    pub(crate) fn set_span(&mut self, span: Span) {
        self.span = span;
        if let ExprKind::Sequence { statements, .. } = &mut self.kind {
            statements
                .iter_mut()
                .for_each(|statement| statement.set_span(span));
        }
        let keys = self.place_mut().map(|place| place.keys.iter_mut());
        keys.into_iter().flatten().for_each(|key| key.set_span(span));
        self.operands_mut()
            .into_iter()
            .for_each(|operand| operand.set_span(span));
    }
}

impl Statement {
    fn set_span(&mut self, span: Span) {
        self.span = span;
        if let StatementKind::Map(place, _) = &mut self.kind {
            place.keys.iter_mut().for_each(|key| key.set_span(span));
        }
        self.kind
            .expressions_mut()
            .into_iter()
            .for_each(|expr| expr.set_span(span));
        let blocks = self.kind.blocks_mut().into_iter().flatten();
        blocks.for_each(|statement| statement.set_span(span));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tree::{BinaryOp, Type};

    /// A division's statements count its zeroes; they are written where the division is.
    #[test]
    fn all_of_an_expression_is_set_to_a_place() {
        let (old, new) = (Span { start: 1, end: 2 }, Span { start: 7, end: 9 });
        let number = |value: u64| Expr::new(ExprKind::Constant(value), Type::U64, old);
        let statement = |kind: StatementKind| Statement { kind, span: old };
        let inner = statement(StatementKind::Set {
            variable: crate::check::tree::VariableId(0),
            value: number(1),
        });
        let condition = statement(StatementKind::If {
            condition: number(2),
            then: vec![inner],
            otherwise: Vec::new(),
        });
        let sum = ExprKind::Binary {
            op: BinaryOp::Add,
            signed: false,
            left: Box::new(number(3)),
            right: Box::new(number(4)),
        };
        let kind = ExprKind::Sequence {
            statements: vec![condition],
            value: Box::new(Expr::new(sum, Type::U64, old)),
        };
        let mut expr = Expr::new(kind, Type::U64, old);
        expr.set_span(new);
        let mut statements = Vec::new();
        inside(&expr, &mut statements);
        assert_eq!(statements.len(), 2);
        let mut all = Vec::new();
        expressions_in(&expr, &mut all);
        for statement in statements {
            assert_eq!(statement.span, new, "{statement:?}");
            for own in statement.kind.expressions() {
                expressions_in(own, &mut all);
            }
        }
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|expr| expr.span == new), "{all:?}");
    }
}
