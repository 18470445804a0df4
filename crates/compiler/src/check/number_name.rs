//! Names of numbers as strings: errors, signals and system calls.

use super::checker::{Checked, Checker};
use super::tree::{CompareOp, Expr, ExprKind, Statement, StatementKind, Type};
use super::value::{comparison, constant};
use crate::lang::ast::Span;
use kestrel_trace::layout::Named;
use kestrel_trace::syscall::{error_text, signal_text, system_call};

/// Numbers that are looked through for a name.
const NUMBERS: std::ops::Range<i32> = 0..1024;

/// The name of a number; `None` of what is no error, signal or system call.
pub(crate) fn name_of(what: &Named, number: i32) -> Option<String> {
    Some(match what {
        Named::Error => error_text(number),
        Named::Signal => signal_text(number),
        Named::SystemCall => system_call(number).to_owned(),
        _ => return None,
    })
}

/// The numbers that have a name.
fn numbers_of(what: &Named, name: &[u8]) -> Vec<i32> {
    let has = |number: &i32| name_of(what, *number).is_some_and(|own| own.as_bytes() == name);
    NUMBERS.filter(has).collect()
}

/// Whether values of this kind are numbers of errors, signals or system calls.
pub(super) fn is_number(what: &Named) -> bool {
    matches!(what, Named::Error | Named::Signal | Named::SystemCall)
}

/// A name as its number.
pub(super) fn as_number(what: &Named, name: &Expr) -> Option<Expr> {
    let ExprKind::ConstantBytes(text) = &name.kind else {
        return None;
    };
    let number = *numbers_of(what, text).first()?;
    let number = constant(number as u64, number_type(what), name.span);
    let ty = Type::Named(what.clone());
    Some(Expr::new(ExprKind::Tuple(vec![number]), ty, name.span))
}

fn number_type(what: &Named) -> Type {
    Type::integer(4, *what == Named::Error)
}

impl Checker<'_> {
    /// `syscall_name(number) == "read"` as a comparison of numbers; `None` where one number alone does not answer that.
    pub(super) fn compare_name(
        &mut self,
        op: CompareOp,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Option<Checked<Expr>> {
        if !matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
            return None;
        }
        let (what, parts, name) = match (&left.ty, &left.kind, &right.ty, &right.kind) {
            (Type::Named(what), ExprKind::Tuple(parts), ty, ExprKind::ConstantBytes(name))
            | (ty, ExprKind::ConstantBytes(name), Type::Named(what), ExprKind::Tuple(parts))
                if ty.is_string() =>
            {
                (what, parts, name)
            }
            _ => return None,
        };
        let ([part], true) = (parts.as_slice(), is_number(what)) else {
            return None;
        };
        let ty = number_type(what);
        let variable = self.hidden_variable("number", ty.clone());
        let kind = StatementKind::Set {
            variable,
            value: part.clone(),
        };
        let number = Expr::new(ExprKind::Variable(variable), ty.clone(), span);
        let is = |wanted: i32| {
            let wanted = constant(i64::from(wanted) as u64, ty.clone(), span);
            comparison(op, ty.is_signed(), number.clone(), wanted, span)
        };
        let same = match (numbers_of(what, name).as_slice(), what) {
            ([], _) => constant(u64::from(op == CompareOp::NotEqual), Type::Bool, span),
            // The message is that of the number without its sign.
            ([error], Named::Error) if *error > 0 => {
                let kind = ExprKind::Logic {
                    and: op == CompareOp::NotEqual,
                    left: Box::new(is(*error)),
                    right: Box::new(is(-error)),
                };
                Expr::new(kind, Type::Bool, span)
            }
            ([number], _) => is(*number),
            _ => return None,
        };
        let statements = vec![Statement { kind, span }];
        Some(Ok(self.behind(statements, same, span)))
    }
}
