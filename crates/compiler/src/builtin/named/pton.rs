//! The built-in `pton`: the bytes of an IP address.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::ast;
use crate::lang::diag::Diagnostic;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) static PTON: Builtin = Builtin {
    name: "pton",
    numbered: false,
    usage: "pton(\"address\")",
    about: "the 4 or 16 bytes of an address of IPv4 or IPv6 in the network's order",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(ast::Expr {
            kind: ast::ExprKind::String(text),
            ..
        }) = args.first()
        else {
            let message = "pton() expects an string literal at the first argument";
            let hint = "an address is known before the program runs: pton(\"127.0.0.1\")";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        };
        let bytes = match text.contains(':') {
            true => text
                .parse::<Ipv6Addr>()
                .ok()
                .map(|address| address.octets().to_vec()),
            false => text
                .parse::<Ipv4Addr>()
                .ok()
                .map(|address| address.octets().to_vec()),
        };
        let Some(bytes) = bytes else {
            let message = format!("pton() expects a valid IPv4/IPv6 address, got {text}");
            return Err(checker.error(usage.span, message));
        };
        let ty = Type::Array {
            element: Box::new(Type::integer(1, false)),
            count: bytes.len() as u32,
        };
        Ok(Expr::new(ExprKind::ConstantBytes(bytes), ty, usage.span))
    }),
};
