//! The built-in `print`: a value on a line of its own, or a map.

use crate::builtin::row::{Builtin, BuiltinKind, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Expr, StatementKind, Type};
use crate::check::value::constant;
use crate::lang::ast;
use crate::lang::diag::Diagnostic;
use kestrel_trace::aggregate::MapType;

pub(crate) static PRINT: Builtin = Builtin {
    name: "print",
    numbered: false,
    usage: "print(value), print(@map[, top[, div]])",
    about: "print a value on a line of its own, or a map: all of it, or its `top` greatest values divided by `div`",
    kind: BuiltinKind::Statement(print),
};

fn print(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<StatementKind> {
    let args = usage.positional(checker, 1, 3)?;
    match (args[0], &args[1..]) {
        (
            ast::Expr {
                kind: ast::ExprKind::Map { name, keys },
                span,
            },
            limits,
        ) if keys.is_empty() => {
            let mut numbers = Vec::new();
            for (place, limit) in limits.iter().enumerate() {
                // Fewer than none is all, as in bpftrace.
                let least = if place == 0 { i64::MIN } else { 0 };
                let limit = checker.phrased(
                    limit.span,
                    usage.span,
                    |checker| checker.whole(limit, least..=i64::from(u32::MAX), "this"),
                    |refused| {
                        let given = if refused.word.is_empty() {
                            "int"
                        } else {
                            &refused.word
                        };
                        format!("print() expects a int literal ({given} provided)")
                    },
                )?;
                numbers.push(limit.max(0));
            }
            checker.print_map(name, numbers, *span, usage.span)
        }
        (value, []) => {
            let value = checker.printable(value)?;
            let value = match value.ty {
                // A conversion of printf says how bytes are shown. There is none here, so they are shown as `buf()` shows them.
                Type::Memory { max } => Expr {
                    ty: Type::Buffer { max },
                    ..value
                },
                _ => value,
            };
            checker.output("print", "", vec![value], usage.span)
        }
        (_, [_, ..]) => {
            let message = format!("Non-map print() only takes 1 argument, {} found", args.len());
            let hint = "only a whole map has a number of entries to print: print(@map, top)";
            Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
        }
    }
}

impl Checker<'_> {
    /// Warns of limits that a map's values have no order for, and of prints that happen when the loop is over.
    fn warn_of_print(&mut self, map: &MapType, limited: bool, span: ast::Span) {
        if limited && map.value.function() == Some("stats") {
            let message = "print()'s top and div arguments are ignored when used on stats() maps.";
            let hint = format!(
                "they are three numbers each, without an order; all of it is print({})",
                map.title()
            );
            self.report(Diagnostic::warning(span, message).hint(hint));
        }
        if self.is_in_loop() {
            let message = "print() of a whole map in a loop is asynchronous: it shows what the map holds when the handler is done, as often";
            let hint = "print it behind the loop, or single values in it: print(@map[key])";
            self.report(Diagnostic::warning(span, message).hint(hint));
        }
    }

    /// `print(@map, top, div)`. The record has the map's generation, because it is carried out later, when the map may have been cleared.
    fn print_map(
        &mut self,
        name: &str,
        limits: Vec<i64>,
        name_span: ast::Span,
        span: ast::Span,
    ) -> Checked<StatementKind> {
        let map = self.known_map(name, name_span)?;
        if self.globals.infers_types {
            self.warn_of_print(&map, !limits.is_empty(), span);
        }
        let single = map.keys.is_empty() && map.value.aggregation().is_none();
        let mut values = vec![self.generation_of(map, span)];
        if single {
            // A map without keys is one value, and the record has it as it is at this moment.
            values.push(self.map_value(name, &[], span)?);
        }
        values.extend(
            limits
                .into_iter()
                .map(|limit| constant(limit as u64, Type::U64, span)),
        );
        let text = match single {
            true => format!("{name}\none"),
            false => name.to_owned(),
        };
        self.output("print_map", &text, values, span)
    }
}
