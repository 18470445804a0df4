//! The built-in `len`: the number of keys of a map, or of frames of a stack.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Access, BinaryOp, CompareOp, Expr, ExprKind, Type};
use crate::check::value::{comparison, constant, operation};
use crate::check::walk::MemoryPlace;
use crate::lang::ast;
use crate::lang::diag::Diagnostic;

pub(crate) static LEN: Builtin = Builtin {
    name: "len",
    numbered: false,
    usage: "len(@map), len(stack)",
    about: "how many keys a map has, or how many frames a stack",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(of) = args.first() else {
            return Err(checker.error(usage.span, "a map or a stack is wanted"));
        };
        if let ast::ExprKind::Map { name, keys } = &of.kind
            && keys.is_empty()
            && !checker.holds_stack(name)
        {
            return checker.map_length(name, usage.span);
        }
        let value = checker.expression(of)?;
        if !matches!(value.ty, Type::Stack { .. } | Type::HeldStack(_)) {
            let message = "call to len() expects a map, ustack, or kstack";
            let hint = match value.ty.is_string() {
                true => "strlen() is the length of a string".to_owned(),
                false => format!("this is {}", checker.describe(&value.ty)),
            };
            return Err(checker.report(Diagnostic::error(of.span, message).hint(hint)));
        }
        let span = usage.span;
        let kept = checker.kept_first(&value);
        let (first, value) = kept.map_or((Vec::new(), value), |(first, value)| (vec![first], value));
        let ExprKind::Bytes {
            address,
            offset,
            access: access @ Access::Context,
            ..
        } = value.kind
        else {
            return Err(checker.error(of.span, "this stack lies nowhere in memory"));
        };
        let spot = MemoryPlace {
            address: *address,
            offset: i64::from(offset),
            access,
        };
        // An error is no frame.
        let count = checker.value_at(spot, Type::I64, span)?;
        let zero = constant(0, Type::I64, span);
        let any = comparison(CompareOp::Greater, true, count.clone(), zero, span);
        let any = Expr { ty: Type::I64, ..any };
        let count = operation(BinaryOp::Multiply, Type::I64, count, any, span);
        let kind = ExprKind::Sequence {
            statements: first,
            value: Box::new(count),
        };
        Ok(Expr::new(kind, Type::I64, span))
    }),
};
