//! The built-in `path`: the path that a `struct path` stands for.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Access, Expr, ExprKind, Statement, StatementKind, Type};
use crate::check::value::{constant, string_constant};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;

/// Most bytes of a path with its NUL (PATH_MAX).
const MAX: u32 = 4096;

pub(crate) static PATH: Builtin = Builtin {
    name: "path",
    numbered: false,
    usage: "path(address[, bytes])",
    about: "the path that a struct path stands for, at fentry and fexit of functions to which the kernel allows it (bpf_d_path)",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 2)?;
        let span = usage.span;
        let max = match args.get(1) {
            Some(bytes) => checker.limit(bytes, MAX, "the length of a path")?,
            None => (checker.longest() + 1).min(MAX),
        };
        let Some(path) = args.first() else {
            return Err(checker.error(span, "a path is missing"));
        };
        let path = checker.expression(path)?;
        let is_typed = match (&path.ty, &path.kind) {
            (Type::Pointer(pointer), _) => pointer.trusted,
            (_, ExprKind::Bytes { access, .. } | ExprKind::Load { access, .. }) => *access == Access::Direct,
            _ => false,
        };
        // Of a member by value it is wanted where it lies.
        let path = match path.ty {
            Type::Struct(..) => checker.address_of(path, span)?,
            _ => path,
        };
        let serves = checker.context.program.is_tracing();
        if !serves || !is_typed {
            let message = match serves {
                true => {
                    "path() takes a struct path that the kernel vouches for: of a parameter of fentry or fexit"
                }
                false => "The path function can only be used with 'fentry', 'fexit', 'iter' probes",
            };
            let hint = "fentry:security_file_open { print(path(args.file.f_path)) }";
            return Err(checker.report(Diagnostic::error(span, message).hint(hint)));
        }
        let room = checker.hidden_variable("path", Type::CharArray { size: max });
        let address = Expr::new(ExprKind::VariableAddress(room), Type::U64, span);
        let statement = |kind| Statement { kind, span };
        let statements = vec![
            statement(StatementKind::Set {
                variable: room,
                value: string_constant("", span),
            }),
            statement(StatementKind::Perform {
                verb: "path",
                helper: helper::D_PATH,
                operands: vec![path, address, constant(max.into(), Type::U64, span)],
            }),
        ];
        let text = checker.string_of(room, span);
        Ok(checker.behind(statements, text, span))
    }),
};
