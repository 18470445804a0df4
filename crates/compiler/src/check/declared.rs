//! Variables that are declared with a type (`let $x: int8`): literals that it cannot hold, and bools apart from integers.

use super::checker::{Checked, Checker};
use super::tree::{self, Type, VariableId};
use crate::lang::ast::{Expr, ExprKind, Span, UnaryOp};
use crate::lang::diag::Diagnostic;

impl Checker<'_> {
    /// Whether a variable of a declared type can hold what is written; other values than literals are cut to its width. `checked` is the value, and `span` the place of the assignment.
    pub(super) fn fits_declaration(
        &mut self,
        variable: VariableId,
        value: &Expr,
        checked: &tree::Expr,
        span: Span,
    ) -> Checked<()> {
        let ty = &checked.ty;
        // A type that was inferred is made to fit; only one that stands in the script can be too narrow.
        if !self.written.contains(&variable) {
            return Ok(());
        }
        let declared = self.variable_type(variable);
        let fits = match (&declared, literal(value)) {
            (Type::Bool, _) => !matches!(ty, Type::Integer { .. }),
            (Type::Integer { .. }, _) if *ty == Type::Bool => false,
            (Type::Integer { size, signed, .. }, Some(Literal::Number(number))) => {
                let bits = u32::from(*size) * 8;
                let range = match signed {
                    true => -(1i128 << (bits - 1))..1i128 << (bits - 1),
                    false => 0..1i128 << bits,
                };
                range.contains(&number)
            }
            (Type::CharArray { size }, Some(Literal::String(bytes))) => bytes < *size as usize,
            _ => true,
        };
        if fits {
            return Ok(());
        }
        let name = self
            .variables
            .get(variable.0 as usize)
            .map(|known| known.name.clone());
        let message = self.mismatch(&format!("${}", name.unwrap_or_default()), checked, &declared);
        let declared = self.spelled_type(&declared).1;
        let hint = match literal(value) {
            Some(Literal::String(bytes)) => {
                format!("with the byte that ends it, it needs string[{}]", bytes + 1)
            }
            Some(Literal::Number(_)) if declared != "bool" => {
                format!("declare a type that has it, or cut it to this one: ({declared})…")
            }
            _ if declared == "bool" => "compare it: … != 0".to_owned(),
            _ => format!("cast it: ({declared})…"),
        };
        Err(self.report(Diagnostic::error(self.place_of_mismatch(checked, span), message).hint(hint)))
    }
}

/// A literal as written.
enum Literal {
    Number(i128),
    /// Bytes of a string.
    String(usize),
}

fn literal(value: &Expr) -> Option<Literal> {
    match &value.kind {
        ExprKind::Integer { value, .. } => Some(Literal::Number(i128::from(*value))),
        ExprKind::String(text) => Some(Literal::String(text.len())),
        ExprKind::Unary {
            op: UnaryOp::Negate,
            value,
        } => match literal(value)? {
            Literal::Number(number) => Some(Literal::Number(-number)),
            Literal::String(_) => None,
        },
        _ => None,
    }
}
