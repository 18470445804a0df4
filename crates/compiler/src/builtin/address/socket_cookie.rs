//! The built-in `socket_cookie`: the kernel's lasting number of a socket.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;

pub(crate) static SOCKET_COOKIE: Builtin = Builtin {
    name: "socket_cookie",
    numbered: false,
    usage: "socket_cookie(socket)",
    about: "the number by which the kernel knows a socket as long as that lives, at fentry and fexit: 0 where there is no socket",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(socket) = args.first() else {
            return Err(checker.error(usage.span, "a socket is missing"));
        };
        let socket = checker.expression(socket)?;
        let is_typed = matches!(socket.ty, Type::Pointer(pointer) if pointer.trusted && pointer.levels == 0);
        let serves = checker.context.program.is_tracing();
        if !serves || !is_typed {
            let message = match serves {
                true => "socket_cookie() takes a socket that the kernel vouches for: a parameter of type struct sock * of fentry or fexit".to_owned(),
                false => format!("socket_cookie can not be used with \"{}\" probes", checker.probe_word()),
            };
            let hint = "fentry:tcp_sendmsg { print(socket_cookie(args.sk)) }";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        }
        let kind = ExprKind::HelperCall {
            helper: helper::GET_SOCKET_COOKIE,
            operands: vec![socket],
        };
        Ok(Expr::new(kind, Type::U64, usage.span))
    }),
};
