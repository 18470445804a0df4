//! The built-in `write_user`: writes to the memory of the process that runs.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{CompareOp, Expr, ExprKind, Statement, StatementKind, Type};
use crate::check::value::{comparison, constant};
use kestrel_bpf::helper;

/// Most bytes that are written at once.
const MAX: u32 = 4096;

pub(crate) static WRITE_USER: Builtin = Builtin {
    name: "write_user",
    numbered: false,
    usage: "write_user(address, string or address, bytes)",
    about: "write to the memory of the process that runs (with --unsafe): true where that went well; the kernel notes it in its log",
    kind: BuiltinKind::Value(|checker, usage| {
        checker.needs_unsafe(usage)?;
        let args = usage.positional(checker, 3, 3)?;
        let [to, from, bytes] = args.as_slice() else {
            return Err(checker.error(
                usage.span,
                "an address, what to write there and its length are wanted",
            ));
        };
        let size = checker.limit(bytes, MAX, "the number of bytes")?;
        let to = checker.expression(to)?;
        if !to.ty.is_scalar() {
            let message = format!("{} is not an address", checker.describe(&to.ty));
            return Err(checker.error(to.span, message));
        }
        let from = checker.expression(from)?;
        let mut statements = Vec::new();
        let from = match from.ty.is_string() {
            true => checker.string_in_memory(from, size, &mut statements).0,
            false if from.ty.is_scalar() => from,
            false => {
                let message = format!(
                    "{} cannot be written: a string or the address of a variable (&$x) can",
                    checker.describe(&from.ty)
                );
                return Err(checker.error(from.span, message));
            }
        };
        let span = usage.span;
        let kind = ExprKind::HelperCall {
            helper: helper::PROBE_WRITE_USER,
            operands: vec![to, from, constant(size.into(), Type::U64, span)],
        };
        // The memory is written even where the program does not use the result.
        let result = checker.hidden_variable("written", Type::I64);
        statements.push(Statement {
            kind: StatementKind::Set {
                variable: result,
                value: Expr::new(kind, Type::I64, span),
            },
            span,
        });
        let result = Expr::new(ExprKind::Variable(result), Type::I64, span);
        let done = comparison(CompareOp::Equal, true, result, constant(0, Type::I64, span), span);
        Ok(checker.behind(statements, done, span))
    }),
};
