//! Walks over a checked handler: its statements, and the parts of each statement and expression. A new kind of statement or expression lists its parts here, once for
//! all passes that search handlers.

use super::tree::{CheckedProbe, Expr, ExprKind, LoopRange, MapChange, MapPlace, Statement, StatementKind};

impl CheckedProbe {
    /// All statements of the body, reached or not; a statement comes before those inside of it.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        let mut all = Vec::new();
        self.predicate.iter().for_each(|expr| inside(expr, &mut all));
        collect(&self.body, &mut all);
        all.into_iter()
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

impl StatementKind {
    /// The blocks of statements inside of it.
    fn blocks(&self) -> [&[Statement]; 2] {
        match self {
            Self::If { then, otherwise, .. } => [then, otherwise],
            Self::Block(statements) | Self::Handler(statements) => [statements, &[]],
            Self::While { body, step, .. } => [body, step],
            Self::ForEach { body, .. } => [body, &[]],
            Self::Set { .. }
            | Self::Record(_)
            | Self::Map(..)
            | Self::Act(_)
            | Self::Perform { .. }
            | Self::Break
            | Self::Continue
            | Self::Return => [&[], &[]],
        }
    }

    /// The place of the map that it changes.
    pub(crate) fn place(&self) -> Option<&MapPlace> {
        match self {
            Self::Map(place, _) => Some(place),
            _ => None,
        }
    }

    /// Its own expressions, without those of statements inside of it and without the keys of a map's place.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        match self {
            Self::Set { value, .. } => vec![value],
            Self::If { condition, .. } | Self::While { condition, .. } => vec![condition],
            Self::Record(record) => record.values.iter().collect(),
            Self::Map(_, change) => match change {
                MapChange::Set(value) | MapChange::Add(value) | MapChange::Aggregate(Some(value)) => {
                    vec![value]
                }
                MapChange::Aggregate(None) | MapChange::Delete | MapChange::Clear { .. } => Vec::new(),
            },
            Self::Perform { operands, .. } => operands.iter().collect(),
            Self::ForEach {
                over: LoopRange::Times(count),
                ..
            } => vec![count],
            Self::ForEach {
                over: LoopRange::Map(_) | LoopRange::Endless,
                ..
            } => Vec::new(),
            Self::Act(_)
            | Self::Block(_)
            | Self::Handler(_)
            | Self::Break
            | Self::Continue
            | Self::Return => Vec::new(),
        }
    }
}

impl Expr {
    /// The place of the map that it reads.
    pub(crate) fn place(&self) -> Option<&MapPlace> {
        match &self.kind {
            ExprKind::MapValue(place)
            | ExprKind::HasKey(place)
            | ExprKind::Gathering(place)
            | ExprKind::MapCopy(place, _) => Some(place),
            _ => None,
        }
    }

    /// Operands of the expression; the keys of a map's place left out.
    pub(crate) fn operands(&self) -> Vec<&Self> {
        match &self.kind {
            ExprKind::Load { address: inner, .. }
            | ExprKind::Bytes { address: inner, .. }
            | ExprKind::BitField { value: inner, .. }
            | ExprKind::Unary { value: inner, .. }
            | ExprKind::IsTarget(inner)
            | ExprKind::Convert { value: inner, .. } => vec![inner],
            ExprKind::ReadString { address, length, .. } => {
                let length = length.as_deref();
                std::iter::once(&**address).chain(length).collect()
            }
            ExprKind::ReadMemory { address, length, .. } => vec![address, length],
            ExprKind::Binary { left, right, .. }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::Logic { left, right, .. }
            | ExprKind::TextEqual { left, right, .. }
            | ExprKind::BytesEqual { left, right, .. }
            | ExprKind::BytesOrder { left, right, .. } => vec![left, right],
            ExprKind::TextBegins { text, with, .. } => vec![text, with],
            ExprKind::TextGlob { text, .. } | ExprKind::TextFind { text, .. } => vec![text],
            ExprKind::SwapBytes { value, .. } => vec![value],
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                let then = then.as_deref();
                [&**condition]
                    .into_iter()
                    .chain(then)
                    .chain([&**otherwise])
                    .collect()
            }
            ExprKind::Elements(values)
            | ExprKind::Gathered(values)
            | ExprKind::Tuple(values)
            | ExprKind::HelperCall { operands: values, .. } => values.iter().collect(),
            ExprKind::Sequence { value, .. } => vec![value],
            ExprKind::Constant(_)
            | ExprKind::Text(_)
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
            | ExprKind::MapValue(_)
            | ExprKind::Generation(_)
            | ExprKind::Gathering(_)
            | ExprKind::HasKey(_)
            | ExprKind::EventNumber
            | ExprKind::DividedByZero
            | ExprKind::EventIs { .. } => Vec::new(),
        }
    }
}
