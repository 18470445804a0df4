//! Which maps and parameters a checked handler uses; not which tables and buffers it names.

use super::tree::{CheckedProbe, Expr, ExprKind, MapChange, MapPlace, Statement, StatementKind};
use std::collections::BTreeSet;

/// What a handler shares with others and with user space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Numbers of the maps that it reads or writes, those among them that it keeps for itself.
    pub maps: BTreeSet<u32>,
    /// Names of the parameters that it reads.
    pub parameters: BTreeSet<String>,
}

impl CheckedProbe {
    /// The maps and parameters that its predicate and its body use, whether or not they are reached.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::default();
        for expr in self.predicate.iter().chain(&self.selector) {
            uses.expression(expr);
        }
        uses.block(&self.body);
        if let Some(pair) = &self.pair {
            uses.place(&pair.mark);
            pair.kept.iter().for_each(|place| uses.place(place));
        }
        uses
    }
}

impl Uses {
    fn block(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.statement(&statement.kind);
        }
    }

    fn statement(&mut self, kind: &StatementKind) {
        match kind {
            StatementKind::Set { value, .. } => self.expression(value),
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.expression(condition);
                self.block(then);
                self.block(otherwise);
            }
            StatementKind::Record(record) => self.expressions(&record.values),
            StatementKind::Map(place, change) => {
                self.place(place);
                match change {
                    MapChange::Set(value) | MapChange::Add(value) | MapChange::Aggregate(Some(value)) => {
                        self.expression(value);
                    }
                    MapChange::Aggregate(None) | MapChange::Delete | MapChange::Clear => {}
                }
            }
            StatementKind::Act(_) | StatementKind::Return => {}
        }
    }

    fn place(&mut self, place: &MapPlace) {
        self.maps.insert(place.map.number);
        self.expressions(&place.keys);
    }

    fn expressions(&mut self, all: &[Expr]) {
        for expr in all {
            self.expression(expr);
        }
    }

    fn expression(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Parameter(name) => {
                self.parameters.insert(name.clone());
            }
            ExprKind::MapValue(place) | ExprKind::HasKey(place) => self.place(place),
            ExprKind::Load { address: inner, .. }
            | ExprKind::Bytes { address: inner, .. }
            | ExprKind::BitField { value: inner, .. }
            | ExprKind::Unary { value: inner, .. }
            | ExprKind::Convert { value: inner, .. } => self.expression(inner),
            ExprKind::ReadString { address, length, .. } => {
                self.expression(address);
                if let Some(length) = length {
                    self.expression(length);
                }
            }
            ExprKind::Binary { left, right, .. }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::Logic { left, right, .. }
            | ExprKind::TextEqual { left, right, .. } => {
                self.expression(left);
                self.expression(right);
            }
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                self.expression(condition);
                if let Some(then) = then {
                    self.expression(then);
                }
                self.expression(otherwise);
            }
            ExprKind::Elements(values) | ExprKind::Gathered(values) => self.expressions(values),
            ExprKind::Constant(_)
            | ExprKind::Text(_)
            | ExprKind::ContextPointer
            | ExprKind::Intrinsic(_)
            | ExprKind::Variable(_)
            | ExprKind::Comm
            | ExprKind::Stack { .. }
            | ExprKind::EventNumber
            | ExprKind::EventIs { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::globals::Globals;
    use super::super::parameter::nowhere;
    use super::super::parameters;
    use super::*;
    use crate::lang::diag::has_errors;
    use crate::lang::{parse_events, parse_script};

    fn uses(text: &str, globals: &mut Globals) -> Uses {
        let (probe, found) = parse_events(text);
        assert!(!has_errors(&found), "{found:?}");
        let (checked, found) = super::super::check(&probe, &nowhere(), false, globals);
        checked.unwrap_or_else(|| panic!("{text}: {found:?}")).uses()
    }

    #[test]
    fn wherever_they_stand() {
        let (script, _) = parse_script("param low = 1; param high = 9; param never = 5; param key = 2");
        let (parameters, _) = parameters(&script.items);
        let mut globals = Globals {
            parameters,
            ..Globals::default()
        };
        let first = "a:b /tid > low/ { $x = 3; if ($x < (high + 1)) { @kept[key] = 1 } else { count() } }";
        let found = uses(first, &mut globals);
        let names: Vec<&str> = found.parameters.iter().map(String::as_str).collect();
        assert_eq!(names, ["high", "key", "low"]);
        let number = |globals: &Globals, name: &str| globals.map(name).unwrap().number;
        let kept = number(&globals, "kept");
        let counted = globals.maps.iter().find(|map| map.by_event).unwrap().number;
        assert_eq!(found.maps, BTreeSet::from([kept, counted]));
        let second = "a:b { @other = hist(@kept[1] ? 1 : cpu); record(held = @kept[2]) }";
        let found = uses(second, &mut globals);
        assert_eq!(found.maps, BTreeSet::from([kept, number(&globals, "other")]));
        assert!(found.parameters.is_empty());
        assert_eq!(uses("a:b { record(cpu) }", &mut globals), Uses::default());
    }
}
