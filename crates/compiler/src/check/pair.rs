//! Checks `entry.EXPRESSION`, the value that an expression had at the entry of a call, in a handler of its return. The expression is checked and computed at the
//! entry's event, which keeps the value in a map that no text can name.

use super::checker::{Checked, Checker};
use super::map::Usage;
use super::tree::{CheckedPair, Expr, MapChange, MapPlace, Statement, StatementKind, Type};
use crate::builtin;
use crate::context::{Pair, ProgramKind};
use crate::lang::ast::{self, Span, Spanned};
use crate::lang::diag::{Diagnostic, has_errors};
use crate::lang::parse_expression;
use fnv::FnvHasher;
use kestrel_trace::aggregate::ValueKind;
use kestrel_trace::layout::{Base, FieldType};
use std::hash::Hasher as _;

/// The operand of `entry.EXPRESSION`: `a.b` of `entry.a.b`; `None` for any other expression.
pub(super) fn at_entry(expr: &ast::Expr) -> Option<ast::Expr> {
    use ast::ExprKind as Kind;
    let kind = match &expr.kind {
        Kind::Member { base, name, .. } if is_entry(base) => Kind::Identifier(name.node.clone()),
        Kind::Member { base, name, arrow } => Kind::Member {
            base: Box::new(at_entry(base)?),
            name: name.clone(),
            arrow: *arrow,
        },
        Kind::Index { base, index } => Kind::Index {
            base: Box::new(at_entry(base)?),
            index: index.clone(),
        },
        Kind::Call { name, args } => Kind::Call {
            name: Spanned {
                node: name.node.strip_prefix("entry.")?.to_owned(),
                span: name.span,
            },
            args: args.clone(),
        },
        _ => return None,
    };
    Some(ast::Expr {
        kind,
        span: expr.span,
    })
}

fn is_entry(expr: &ast::Expr) -> bool {
    matches!(&expr.kind, ast::ExprKind::Identifier(word) if word == builtin::ENTRY.name)
}

/// Spells an expression in one way, however it is written: the map that keeps its value is named after this.
fn spelled(expr: &ast::Expr) -> Option<String> {
    use ast::ExprKind as Kind;
    Some(match &expr.kind {
        Kind::Identifier(name) => name.clone(),
        Kind::Integer { value, .. } => value.to_string(),
        Kind::String(text) => format!("{text:?}"),
        Kind::Member { base, name, .. } => format!("{}.{}", spelled(base)?, name.node),
        Kind::Index { base, index } => format!("{}[{}]", spelled(base)?, spelled(index)?),
        Kind::Call { name, args } => {
            let args: Option<Vec<String>> = args.iter().map(|arg| spelled(&arg.value)).collect();
            format!("{}({})", name.node, args?.join(", "))
        }
        _ => return None,
    })
}

impl Checker<'_> {
    /// Marks the entry of an event that counts only behind its entry, whether or not the handler mentions `entry`.
    pub(super) fn mark_entry_always(&mut self, span: Span) -> Checked<()> {
        match self.context.pair.clone() {
            Some(pair) if pair.always => self.mark_entry(&pair, span),
            _ => Ok(()),
        }
    }

    /// `entry.EXPRESSION`: the value that the expression had when the call began.
    pub(super) fn entry_value(&mut self, inner: &ast::Expr, span: Span) -> Checked<Expr> {
        let Some(pair) = self.context.pair.clone() else {
            return self.entry_value_without_pair(inner, span);
        };
        let Some(text) = spelled(inner) else {
            let message = "this expression cannot be kept from the entry";
            let hint = "keep its operands: entry.arg0, entry.args.NAME, entry.reg(\"di\")";
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        };
        self.mark_entry(&pair, span)?;
        let name = self.hidden_map_name(&text);
        let known = self
            .pair
            .as_ref()
            .is_some_and(|p| p.kept.iter().any(|k| k.map.name == name));
        let key = key(&pair.key, span);
        // The first mention of an expression adds a statement to the entry's handler that stores its value; later mentions read the same map.
        if !known {
            let (statement, found) = self.in_context_of(&pair.first, |checker| {
                let value = checker.expression(inner)?;
                let key = self::key(&pair.first_key, span);
                checker.store_hidden(&name, &key, value, span)
            });
            self.found.extend(found);
            let statement = statement?;
            let place = self.hidden_place(&name, &key, span)?;
            if let Some(pair) = &mut self.pair {
                pair.first.insert(0, statement);
                pair.kept.push(place);
            }
        }
        self.map_value(&name, &key, span)
    }

    /// The value at an event without a pair, or an error: fexit has the arguments of the entry without anything kept.
    fn entry_value_without_pair(&mut self, inner: &ast::Expr, span: Span) -> Checked<Expr> {
        use ast::ExprKind as Kind;
        let context = self.context;
        if context.program == ProgramKind::Fexit {
            // The trampoline has the arguments as they were at the entry.
            let argument = match &inner.kind {
                Kind::Identifier(word) => word.starts_with("arg"),
                Kind::Member { base, .. } => {
                    matches!(&base.kind, Kind::Identifier(word) if word == "args")
                }
                _ => false,
            };
            if argument {
                return self.expression(inner);
            }
        }
        let message = format!("{} keeps nothing of an entry", context.name);
        let hint = match (&context.function, context.program) {
            (Some(function), ProgramKind::Fexit) => {
                format!("fexit knows the arguments alone; kretprobe:{function} keeps any value of the entry")
            }
            (Some(function), _) => format!("a return does: kretprobe:{function} {{ record(entry.arg0) }}"),
            (None, _) => "returns do: kretprobe:FUNCTION { record(entry.arg0) }".to_owned(),
        };
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    /// Adds the mark by which the second event knows that the first was seen: an entry in a hidden map, which is deleted where the call is aborted.
    fn mark_entry(&mut self, pair: &Pair, span: Span) -> Checked<()> {
        if self.pair.is_some() {
            return Ok(());
        }
        let name = self.hidden_map_name("");
        let (mark, found) = self.in_context_of(&pair.first, |checker| {
            let one = super::value::constant(1, Type::U64, span);
            checker.store_hidden(&name, &key(&pair.first_key, span), one, span)
        });
        self.found.extend(found);
        let mark = mark?;
        let mut aborted = Vec::new();
        if let Some((context, text)) = &pair.aborted {
            let (ended, found) = self.in_context_of(context, |checker| {
                let place = checker.hidden_place(&name, &key(text, span), span)?;
                let kind = StatementKind::Map(place, MapChange::Delete);
                Ok(Statement { kind, span })
            });
            self.found.extend(found);
            aborted.push(ended?);
        }
        self.pair = Some(CheckedPair {
            mark: self.hidden_place(&name, &key(&pair.key, span), span)?,
            kept: Vec::new(),
            first: vec![mark],
            aborted,
        });
        Ok(())
    }

    /// The name of the hidden map that keeps a value. No text can spell it, because it has a blank; and it is the same when a table is loaded again, which
    /// then finds its earlier map.
    fn hidden_map_name(&self, text: &str) -> String {
        let whole = format!("{} {} {text}", self.context.name, self.globals.text);
        // This hash is the same in every process.
        let mut hasher = FnvHasher::default();
        hasher.write(whole.as_bytes());
        format!("entry {:016x}", hasher.finish())
    }

    /// Checks something as part of another event's handler; the diagnostics of that are returned beside the result.
    fn in_context_of<T>(
        &mut self,
        context: &crate::context::Context,
        work: impl FnOnce(&mut Checker<'_>) -> Checked<T>,
    ) -> (Checked<T>, Vec<Diagnostic>) {
        let mut there = Checker::new(context, std::mem::take(&mut self.globals));
        let done = work(&mut there);
        self.globals = there.globals;
        (done, there.found)
    }

    /// A place in a hidden map, for reading.
    fn hidden_place(&mut self, name: &str, key: &[ast::Expr], span: Span) -> Checked<MapPlace> {
        let keys: Vec<&ast::Expr> = key.iter().collect();
        let assumed = ValueKind::Scalar(FieldType::Integer {
            size: 8,
            signed: false,
            base: Base::Decimal,
        });
        self.map_place(name, &keys, None, &assumed, Usage::Reads, span)
    }

    /// The statement `map[key] = value` for a hidden map.
    fn store_hidden(&mut self, name: &str, key: &[ast::Expr], value: Expr, span: Span) -> Checked<Statement> {
        let keys: Vec<&ast::Expr> = key.iter().collect();
        let kind = self.stores(name, &keys, MapChange::Set(value), (span, span))?;
        Ok(Statement { kind, span })
    }
}

/// The key of a call: the thread, and a number that distinguishes the thread's calls in progress.
fn key(number: &str, span: Span) -> [ast::Expr; 2] {
    // Blanks before the text give it the position of `span`, so that errors point there.
    let (parsed, wrong) = parse_expression(&format!("{:start$}{number}", "", start = span.start as usize));
    debug_assert!(!has_errors(&wrong), "{number}");
    let thread = ast::ExprKind::Identifier("tid".to_owned());
    [ast::Expr { kind: thread, span }, parsed]
}
