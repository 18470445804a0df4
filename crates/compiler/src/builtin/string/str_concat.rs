//! The built-in `str_concat`: two strings joined.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{BinaryOp, Expr, ExprKind, Statement, StatementKind, Type};
use crate::check::value::{bytes_constant, constant, operation, shortened, string_constant};
use kestrel_bpf::helper;

pub(crate) static STR_CONCAT: Builtin = Builtin {
    name: "str_concat",
    numbered: false,
    usage: "str_concat(string, string)",
    about: "two strings, one behind the other",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 2, 2)?;
        let span = usage.span;
        let [left, right] = args.as_slice() else {
            return Err(checker.error(span, "two strings are wanted"));
        };
        let (left, right) = (checker.string_argument(left)?, checker.string_argument(right)?);
        if let (ExprKind::ConstantBytes(left), ExprKind::ConstantBytes(right)) = (&left.kind, &right.kind) {
            let both = [left.as_slice(), right.as_slice()].concat();
            return Ok(bytes_constant(both, span));
        }
        let mut statements = Vec::new();
        let (left, left_size) = checker.string_in_memory(left, 0, &mut statements);
        let (right, right_size) = checker.string_in_memory(right, 0, &mut statements);
        // The verifier knows the length of the first by a mask.
        let mask = left_size.next_power_of_two() - 1;
        let size = mask + 1 + right_size;
        let out = checker.hidden_variable("text", Type::CharArray { size });
        let number = |value: u32| constant(value.into(), Type::U64, span);
        let address = Expr::new(ExprKind::VariableAddress(out), Type::U64, span);
        let statement = |kind| Statement { kind, span };
        statements.push(statement(StatementKind::Set {
            variable: out,
            value: string_constant("", span),
        }));
        let copy = |to: Expr, size: u32, from: Expr| ExprKind::HelperCall {
            helper: helper::PROBE_READ_KERNEL_STR,
            operands: vec![to, number(size), from],
        };
        let length = Expr::new(copy(address.clone(), left_size, left), Type::I64, span);
        let length = operation(
            BinaryOp::Subtract,
            Type::I64,
            length,
            constant(1, Type::I64, span),
            span,
        );
        let length = operation(BinaryOp::And, Type::U64, length, number(mask), span);
        let end = operation(BinaryOp::Add, Type::U64, address.clone(), length, span);
        statements.push(statement(StatementKind::Perform {
            verb: "str_concat",
            helper: helper::PROBE_READ_KERNEL_STR,
            operands: vec![end, number(right_size), right],
        }));
        // A text that is put before itself, `$s = str_concat($s, …)`, does not grow for ever.
        let most = checker.longest();
        let text = match (checker.string_of(out, span), size > most) {
            (text, true) => shortened(text, most),
            (text, false) => text,
        };
        Ok(checker.behind(statements, text, span))
    }),
};
