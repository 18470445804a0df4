//! The built-in `strlen`: the length of a string.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{ExprKind, Type};
use crate::check::value::constant;

pub(crate) static STRLEN: Builtin = Builtin {
    name: "strlen",
    numbered: false,
    usage: "strlen(string)",
    about: "the bytes of a string up to its NUL",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(text) = args.first() else {
            return Err(checker.error(usage.span, "a string is missing"));
        };
        let text = checker.string_argument(text)?;
        if let ExprKind::ConstantBytes(known) = &text.kind {
            let length = known.iter().position(|byte| *byte == 0).unwrap_or(known.len());
            return Ok(constant(length as u64, Type::U64, usage.span));
        }
        let mut statements = Vec::new();
        let (address, size) = checker.string_in_memory(text, 0, &mut statements);
        let (_, length) = checker.string_copied(address, size, &mut statements);
        Ok(checker.behind(statements, length, usage.span))
    }),
};
