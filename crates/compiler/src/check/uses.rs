//! Maps, parameters, tables and buffers that a checked handler uses.

use super::tree::{
    Action, CheckedProbe, Destination, Expr, ExprKind, LoopRange, MapChange, MapPlace, Statement,
    StatementKind,
};
use std::collections::BTreeSet;

/// Resources that a handler shares with others and with user space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Numbers of the maps that it reads or writes, those among them that it keeps for itself.
    pub maps: BTreeSet<u32>,
    /// Names of the parameters that it reads.
    pub parameters: BTreeSet<String>,
    /// Names of the tables that it switches to.
    pub tables: BTreeSet<String>,
    /// Names of the buffers that it writes to, switches to or changes.
    pub buffers: BTreeSet<String>,
    /// Whether it asks which threads the session follows.
    pub targets: bool,
}

impl CheckedProbe {
    /// Uses of its predicate and its body, whether or not they are reached.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::default();
        for expr in self.predicate.iter().chain(&self.selector) {
            uses.expression(expr);
        }
        for statement in self.statements() {
            if let StatementKind::ForEach {
                over: LoopRange::Map(map),
                ..
            } = &statement.kind
            {
                uses.maps.insert(map.number);
            }
            uses.names(&statement.kind);
            statement
                .kind
                .place()
                .into_iter()
                .for_each(|place| uses.place(place));
            statement
                .kind
                .expressions()
                .into_iter()
                .for_each(|expr| uses.expression(expr));
        }
        if let Some(pair) = &self.pair {
            uses.place(&pair.mark);
            pair.kept.iter().for_each(|place| uses.place(place));
        }
        uses
    }
}

impl CheckedProbe {
    /// Whether its code may need BPF-to-BPF functions: they find the buckets of histograms, and add up the values of all CPUs where an aggregation is read.
    pub fn takes_functions(&self) -> bool {
        let reads = |expr: &Expr| matches!(expr.kind, ExprKind::Aggregate(..));
        let counts = |statement: &Statement| match &statement.kind {
            StatementKind::Map(place, MapChange::Aggregate(_)) => {
                let aggregation = place.map.value.aggregation();
                aggregation.is_some_and(|aggregation| aggregation.function.takes_functions())
            }
            _ => false,
        };
        self.expressions().any(reads) || self.statements().any(counts)
    }
}

impl Uses {
    /// Adds the table or the buffer that a statement names.
    fn names(&mut self, statement: &StatementKind) {
        let buffer = match statement {
            StatementKind::Record(record) => match &record.to {
                Destination::Buffer(name) => name,
                Destination::Current | Destination::Messages => return,
            },
            StatementKind::Act(action) => match action {
                Action::UseTable(name) => {
                    self.tables.insert(name.clone());
                    return;
                }
                Action::UseBuffer(name) | Action::Freeze(name) | Action::Thaw(name) | Action::Reset(name) => {
                    name
                }
                Action::Leave | Action::Call { .. } => return,
            },
            _ => return,
        };
        self.buffers.insert(buffer.clone());
    }

    fn place(&mut self, place: &MapPlace) {
        self.maps.insert(place.map.number);
        place.keys.iter().for_each(|key| self.expression(key));
    }

    fn expression(&mut self, expr: &Expr) {
        if let ExprKind::Parameter(name) = &expr.kind {
            self.parameters.insert(name.clone());
        }
        self.targets |= matches!(expr.kind, ExprKind::IsTarget(_));
        expr.place().into_iter().for_each(|place| self.place(place));
        expr.operands()
            .into_iter()
            .for_each(|operand| self.expression(operand));
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
    fn functions_are_for_buckets_and_totals() {
        for (text, takes) in [
            ("a:b { @n = count(); @m = max(cpu); @s = 1; print(@s) }", false),
            ("a:b { @h = hist(cpu) }", true),
            ("a:b { if (cpu > 1) { @l = lhist(cpu, 0, 10, 1) } }", true),
            ("a:b { @m = max(cpu); if (@m > 1) { @s = 1 } }", true),
            ("a:b { @m = max(cpu); @k[@m] = 1 }", true),
        ] {
            let (probe, found) = parse_events(text);
            assert!(!has_errors(&found), "{found:?}");
            let (checked, found) = super::super::check(&probe, &nowhere(), false, &mut Globals::default());
            let checked = checked.unwrap_or_else(|| panic!("{text}: {found:?}"));
            assert_eq!(checked.takes_functions(), takes, "{text}");
        }
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

    #[test]
    fn tables_and_buffers_are_those_of_the_calls_that_take_them() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut globals = Globals {
            tables: names(&["t", "u"]),
            buffers: names(&["a", "b", "c"]),
            ..Globals::default()
        };
        let text =
            r#"a:b { if (cpu > 1) { record(pid, to("\x61")); freeze("b") } use_table("t"); notify("c u") }"#;
        let found = uses(text, &mut globals);
        let named: Vec<&BTreeSet<String>> = vec![&found.tables, &found.buffers];
        let named: Vec<Vec<&str>> = named
            .iter()
            .map(|names| names.iter().map(String::as_str).collect())
            .collect();
        assert_eq!(named, [vec!["t"], vec!["a", "b"]]);
    }
}
