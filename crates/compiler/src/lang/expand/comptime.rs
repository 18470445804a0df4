//! Compile-time evaluation before types are known: literal numbers, strings and booleans, and operators on them.

use crate::lang::ast::{BinaryOp, Expr, ExprKind, UnaryOp};

/// A constant, evaluated before types are known.
#[derive(Clone, Debug, PartialEq)]
enum Constant {
    Integer { value: u64, unsigned: bool },
    String(String),
    Bool(bool),
}

/// Value of an expression of numbers, in 64 bits; `named` gives the values of names.
pub fn number(expr: &Expr, named: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    match known(expr, named)? {
        Constant::Integer { value, .. } => Some(value.cast_signed()),
        Constant::Bool(value) => Some(i64::from(value)),
        Constant::String(_) => None,
    }
}

/// Whether an expression is a literal, or one by its operators, which are computed before types are known: `1 + 1`.
pub(super) fn is_literal(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Integer { .. } | ExprKind::String(_) | ExprKind::Bool(_) => true,
        ExprKind::Binary {
            op: BinaryOp::Add,
            left,
            right,
        } if matches!(left.kind, ExprKind::String(_)) => matches!(right.kind, ExprKind::String(_)),
        ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Chain { .. }
        | ExprKind::Ternary { .. } => known(expr, &|_| None).is_some(),
        _ => false,
    }
}

/// Whether an expression is true, if that is known.
pub(super) fn truth(expr: &Expr) -> Option<bool> {
    Some(match known(expr, &|_| None)? {
        Constant::Integer { value, .. } => value != 0,
        Constant::Bool(value) => value,
        Constant::String(text) => !text.is_empty(),
    })
}

/// An expression as a literal, if its value is known.
pub(super) fn literal(expr: &Expr) -> Option<ExprKind> {
    match &expr.kind {
        ExprKind::Tuple(all) => {
            let all: Option<Vec<Expr>> = all
                .iter()
                .map(|one| {
                    Some(Expr {
                        kind: literal(one)?,
                        span: one.span,
                    })
                })
                .collect();
            return all.map(ExprKind::Tuple);
        }
        ExprKind::Block(block) if block.statements.is_empty() => return literal(block.value.as_ref()?),
        _ => {}
    }
    Some(match known(expr, &|_| None)? {
        Constant::Integer { value, unsigned } => {
            let value_signed = value.cast_signed();
            // Negative numbers are written with their sign.
            if !unsigned
                && value_signed < 0
                && matches!(
                    expr.kind,
                    ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Chain { .. }
                )
            {
                let positive = Expr {
                    kind: ExprKind::Integer {
                        value: value_signed.unsigned_abs(),
                        unsigned: false,
                    },
                    span: expr.span,
                };
                return Some(ExprKind::Unary {
                    op: UnaryOp::Negate,
                    value: Box::new(positive),
                });
            }
            ExprKind::Integer { value, unsigned }
        }
        Constant::String(text) => ExprKind::String(text),
        Constant::Bool(value) => ExprKind::Bool(value),
    })
}

fn known(expr: &Expr, named: &dyn Fn(&str) -> Option<i64>) -> Option<Constant> {
    let signed = |value: i64| Constant::Integer {
        value: value.cast_unsigned(),
        unsigned: false,
    };
    Some(match &expr.kind {
        ExprKind::Integer { value, unsigned } => Constant::Integer {
            value: *value,
            // As in C, a literal beyond `int64` is unsigned.
            unsigned: *unsigned || i64::try_from(*value).is_err(),
        },
        ExprKind::String(text) => Constant::String(text.clone()),
        ExprKind::Bool(value) => Constant::Bool(*value),
        ExprKind::Identifier(name) => signed(named(name)?),
        ExprKind::Comptime(inner) => known(inner, named)?,
        ExprKind::Block(block) if block.statements.is_empty() => known(block.value.as_ref()?, named)?,
        ExprKind::Unary { op, value } => match (op, known(value, named)?) {
            (UnaryOp::Not, Constant::Integer { value, .. }) => Constant::Bool(value == 0),
            (UnaryOp::Not, Constant::Bool(value)) => Constant::Bool(!value),
            (UnaryOp::Negate, Constant::Integer { value, .. }) => signed(value.cast_signed().wrapping_neg()),
            (UnaryOp::BitNot, Constant::Integer { value, unsigned }) => Constant::Integer {
                value: !value,
                unsigned,
            },
            _ => return None,
        },
        ExprKind::Ternary {
            condition,
            then,
            otherwise,
        } => {
            let condition = known(condition, named)?;
            let holds = match &condition {
                Constant::Integer { value, .. } => *value != 0,
                Constant::Bool(value) => *value,
                Constant::String(_) => return None,
            };
            // Only the side that is taken has to be constant.
            match (holds, then) {
                (true, Some(then)) => known(then, named)?,
                (true, None) => condition,
                (false, _) => known(otherwise, named)?,
            }
        }
        ExprKind::Binary { op, left, right } => combined(*op, &known(left, named)?, &known(right, named)?)?,
        ExprKind::Chain { first, rest } => {
            rest.iter().try_fold(known(first, named)?, |left, (op, right)| {
                combined(*op, &left, &known(right, named)?)
            })?
        }
        ExprKind::Index { base, index } => {
            let ExprKind::Tuple(all) = &base.kind else {
                return None;
            };
            let index = number(index, named)?;
            known(all.get(usize::try_from(index).ok()?)?, named)?
        }
        ExprKind::Member { base, name, .. } => match &base.kind {
            ExprKind::Tuple(all) => known(all.get(name.node.parse::<usize>().ok()?)?, named)?,
            ExprKind::Record(all) => known(&all.iter().find(|(own, _)| own.node == name.node)?.1, named)?,
            _ => return None,
        },
        _ => return None,
    })
}

fn combined(op: BinaryOp, left: &Constant, right: &Constant) -> Option<Constant> {
    use BinaryOp as Op;
    let truth = |known: &Constant| match known {
        Constant::Integer { value, .. } => Some(*value != 0),
        Constant::Bool(value) => Some(*value),
        Constant::String(_) => None,
    };
    match op {
        Op::And => return Some(Constant::Bool(truth(left)? && truth(right)?)),
        Op::Or => return Some(Constant::Bool(truth(left)? || truth(right)?)),
        _ => {}
    }
    if let (Constant::String(left), Constant::String(right)) = (left, right) {
        return match op {
            Op::Equal => Some(Constant::Bool(left == right)),
            Op::NotEqual => Some(Constant::Bool(left != right)),
            _ => None,
        };
    }
    let number = |known: &Constant| match known {
        Constant::Integer { value, unsigned } => Some((*value, *unsigned)),
        Constant::Bool(value) => Some((u64::from(*value), false)),
        Constant::String(_) => None,
    };
    let ((a, left_unsigned), (b, right_unsigned)) = (number(left)?, number(right)?);
    let unsigned = left_unsigned || right_unsigned;
    let (x, y) = (a.cast_signed(), b.cast_signed());
    let less = if unsigned { a < b } else { x < y };
    let value = match op {
        Op::Equal => return Some(Constant::Bool(a == b)),
        Op::NotEqual => return Some(Constant::Bool(a != b)),
        Op::Less => return Some(Constant::Bool(less)),
        Op::GreaterEqual => return Some(Constant::Bool(!less)),
        Op::LessEqual => return Some(Constant::Bool(less || a == b)),
        Op::Greater => return Some(Constant::Bool(!less && a != b)),
        Op::Add => a.wrapping_add(b),
        // A difference is signed, as that of values which are known only when the program runs (`result_type` in check/operator.rs).
        Op::Subtract => {
            return Some(Constant::Integer {
                value: a.wrapping_sub(b),
                unsigned: false,
            });
        }
        Op::Multiply => a.wrapping_mul(b),
        Op::Divide if unsigned => a.checked_div(b)?,
        Op::Divide => x.checked_div(y)?.cast_unsigned(),
        Op::Modulo if unsigned => a.checked_rem(b)?,
        Op::Modulo => x.checked_rem(y)?.cast_unsigned(),
        Op::ShiftLeft => a.checked_shl(u32::try_from(b).ok()?)?,
        Op::ShiftRight if unsigned => a.checked_shr(u32::try_from(b).ok()?)?,
        Op::ShiftRight => x.checked_shr(u32::try_from(b).ok()?)?.cast_unsigned(),
        Op::BitAnd => a & b,
        Op::BitOr => a | b,
        Op::BitXor => a ^ b,
        Op::And | Op::Or => return None,
    };
    Some(Constant::Integer { value, unsigned })
}
