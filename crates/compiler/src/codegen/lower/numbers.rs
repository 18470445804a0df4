//! Variables of pointer types that hold only addresses that the text names, such as `(int32 *)16`, and steps from these: to the verifier they are numbers.

use crate::check::tree::{CheckedProbe, Expr, ExprKind, StatementKind, Type, VariableId};
use std::collections::BTreeSet;

/// The variables of pointer types in which the verifier finds numbers alone, whatever way it goes.
pub(super) fn addresses_by_number(probe: &CheckedProbe) -> BTreeSet<VariableId> {
    let pointer = |ty: &Type| matches!(ty, Type::Pointer(_));
    let mut found: BTreeSet<VariableId> = probe
        .variables
        .iter()
        .zip(0..)
        .filter(|(variable, _)| pointer(&variable.ty))
        .map(|(_, number)| VariableId(number))
        .collect();
    let stored: Vec<(VariableId, &Expr)> = probe
        .statements()
        .filter_map(|statement| match &statement.kind {
            StatementKind::Set { variable, value } => Some((*variable, value)),
            _ => None,
        })
        .collect();
    // One that takes its value from another that may hold an address may do so, too.
    loop {
        let before = found.len();
        for (variable, value) in &stored {
            if !is_number(value, &found) {
                found.remove(variable);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Whether the value of an expression is a number to the verifier, if these variables hold numbers; in doubt it is none.
fn is_number(expr: &Expr, numbers: &BTreeSet<VariableId>) -> bool {
    match &expr.kind {
        ExprKind::Constant(_) | ExprKind::Convert { .. } => true,
        ExprKind::Variable(id) => !matches!(expr.ty, Type::Pointer(_)) || numbers.contains(id),
        ExprKind::Unary { value, .. } | ExprKind::Sequence { value, .. } => is_number(value, numbers),
        ExprKind::Binary { left, right, .. } => is_number(left, numbers) && is_number(right, numbers),
        ExprKind::Ternary {
            then: Some(then),
            otherwise,
            ..
        } => is_number(then, numbers) && is_number(otherwise, numbers),
        _ => false,
    }
}
