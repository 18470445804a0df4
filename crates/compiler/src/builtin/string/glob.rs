//! The built-in `glob`: whether a string matches a pattern.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::check::value::room;
use crate::lang::ast;
use crate::lang::diag::Diagnostic;
use crate::lang::glob::Glob;

/// Most bytes of a string that are looked at: each takes instructions of its own.
const MAX: u32 = 128;

pub(crate) static GLOB: Builtin = Builtin {
    name: "glob",
    numbered: false,
    usage: "glob(string, \"pattern\")",
    about: "whether a string is one that a pattern of *, ? and [a-z] stands for",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 2, 2)?;
        let [text, pattern] = args.as_slice() else {
            return Err(checker.error(usage.span, "a string and a pattern are wanted"));
        };
        let value = checker.expression(text)?;
        let ast::ExprKind::String(written) = &pattern.kind else {
            return Err(checker.error(pattern.span, "the pattern is a string in quotes"));
        };
        let glob = match Glob::parse(written) {
            Ok(glob) => glob,
            Err(why) => return Err(checker.error(pattern.span, why)),
        };
        if !value.ty.is_string() {
            let message = "a pattern stands for strings, and this is none";
            let hint = "read the string at an address with str()";
            return Err(checker.report(Diagnostic::error(text.span, message).hint(hint)));
        }
        let value = match room(&value) {
            // How long it is, is known when it is read.
            0 => checker.string(value, MAX - 1, None, text.span)?,
            _ => value,
        };
        let bytes = room(&value).min(MAX);
        let kind = match value.kind {
            ExprKind::ConstantBytes(known) => ExprKind::Constant(u64::from(glob.matches(&known))),
            _ => ExprKind::StringGlob {
                text: Box::new(value),
                glob,
                bytes,
            },
        };
        Ok(Expr::new(kind, Type::Bool, usage.span))
    }),
};
