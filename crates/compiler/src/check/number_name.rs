//! Names of errors, signals and system calls as strings, where they meet other strings: by themselves they are numbers, which readers name.

use super::checker::{Checked, Checker};
use super::shape::{NAME, is_named_number};
use super::tree::{CompareOp, Expr, ExprKind, Statement, StatementKind, Type, UnaryOp};
use super::value::{bytes_constant, comparison, constant};
use super::walk::MemoryPlace;
use crate::lang::ast::Span;
use kestrel_trace::layout::Named;
use kestrel_trace::syscall::{error_text, signal_text, system_call};

/// Numbers that are looked through for a name; what lies outside has the name of the first and of the last.
const NUMBERS: std::ops::Range<i32> = -1..1024;
/// The name of a number; `None` of what is no error, signal or system call.
pub(crate) fn name_of(what: &Named, number: i32) -> Option<String> {
    Some(match what {
        Named::Error => error_text(number),
        Named::Signal => signal_text(number),
        Named::SystemCall => system_call(number).to_owned(),
        _ => return None,
    })
}

fn number_type(what: &Named) -> Type {
    Type::integer(4, *what == Named::Error)
}

/// The name by a number, of runs of numbers with one name each: found by halving.
fn chosen(number: &Expr, runs: &[(i32, String)]) -> Expr {
    let span = number.span;
    match runs {
        [] => bytes_constant(Vec::new(), span),
        [(_, name)] => bytes_constant(name.clone().into_bytes(), span),
        runs => {
            let (low, high) = runs.split_at(runs.len() / 2);
            let from = high.first().map_or(0, |(from, _)| *from);
            let from = constant(i64::from(from).cast_unsigned(), Type::I64, span);
            let kind = ExprKind::Ternary {
                condition: Box::new(comparison(CompareOp::Less, true, number.clone(), from, span)),
                then: Some(Box::new(chosen(number, low))),
                otherwise: Box::new(chosen(number, high)),
            };
            Expr::new(kind, Type::CharArray { size: NAME }, span)
        }
    }
}

impl Checker<'_> {
    /// In scripts, a number that is shown by a name as the string of that; other values as they are.
    pub(super) fn name_as_string(&mut self, value: Expr) -> Expr {
        let Type::Named(what) = value.ty.clone() else {
            return value;
        };
        if !self.globals.infers_types || !is_named_number(&value.ty) {
            return value;
        }
        let Some(number) = self.number_of(value.clone(), &what) else {
            return value;
        };
        let span = value.span;
        let (keep, number) = self.kept_number(&what, number, span);
        let mut runs: Vec<(i32, String)> = Vec::new();
        for (at, name) in NUMBERS.filter_map(|at| Some((at, name_of(&what, at)?))) {
            if runs.last().is_none_or(|(_, last)| *last != name) {
                runs.push((at, name));
            }
        }
        let name = chosen(&number, &runs);
        let Some((first, kept)) = self.kept_as(&name, Type::CharArray { size: NAME }) else {
            return value;
        };
        let kind = StatementKind::Block(vec![keep, first]);
        Self::bytes_behind((Statement { kind, span }, kept), value)
    }

    /// The number of a value that is shown by a name.
    fn number_of(&mut self, value: Expr, what: &Named) -> Option<Expr> {
        if let ExprKind::Tuple(parts) = &value.kind {
            return parts.first().cloned();
        }
        let span = value.span;
        let ExprKind::Bytes {
            address,
            offset,
            access,
            ..
        } = self.in_memory(value).kind
        else {
            return None;
        };
        let spot = MemoryPlace {
            address: *address,
            offset: i64::from(offset),
            access,
        };
        self.value_at(spot, number_type(what), span).ok()
    }

    /// Keeps a number in a variable, that of an error without its sign.
    fn kept_number(&mut self, what: &Named, number: Expr, span: Span) -> (Statement, Expr) {
        let variable = self.hidden_variable("number", Type::I64);
        let kept = Expr::new(ExprKind::Variable(variable), Type::I64, span);
        let set = |value| {
            let kind = StatementKind::Set { variable, value };
            Statement { kind, span }
        };
        let mut statements = vec![set(number)];
        if *what == Named::Error {
            let zero = constant(0, Type::I64, span);
            let kind = ExprKind::Unary {
                op: UnaryOp::Negate,
                value: Box::new(kept.clone()),
            };
            let kind = StatementKind::If {
                condition: comparison(CompareOp::Less, true, kept.clone(), zero, span),
                then: vec![set(Expr::new(kind, Type::I64, span))],
                otherwise: Vec::new(),
            };
            statements.push(Statement { kind, span });
        }
        let kind = StatementKind::Block(statements);
        (Statement { kind, span }, kept)
    }

    /// `syscall_name(number) == "read"` as a comparison of numbers; `None` where one number alone does not answer that.
    pub(super) fn compare_name(
        &mut self,
        op: CompareOp,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Option<Checked<Expr>> {
        if !self.globals.infers_types || !matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
            return None;
        }
        let (named, name) = match (&left.kind, &right.kind) {
            (_, ExprKind::ConstantBytes(name)) if right.ty.is_string() => (left, name),
            (ExprKind::ConstantBytes(name), _) if left.ty.is_string() => (right, name),
            _ => return None,
        };
        let Type::Named(what) = &named.ty else { return None };
        if !is_named_number(&named.ty) {
            return None;
        }
        let has = |number: &i32| name_of(what, *number).is_some_and(|own| own.as_bytes() == name);
        let numbers: Vec<i32> = NUMBERS.filter(has).collect();
        let same = match numbers.as_slice() {
            [] => constant(u64::from(op == CompareOp::NotEqual), Type::Bool, span),
            // The message is that of the number without its sign, and of -1 as of 1.
            [-1, 1] if *what == Named::Error => return None,
            [number] => {
                let value = self.number_of(named.clone(), what)?;
                let (keep, kept) = self.kept_number(what, value, span);
                let wanted = constant(i64::from(*number).cast_unsigned(), Type::I64, span);
                let same = comparison(op, true, kept, wanted, span);
                return Some(Ok(self.behind(vec![keep], same, span)));
            }
            _ => return None,
        };
        Some(Ok(same))
    }
}
