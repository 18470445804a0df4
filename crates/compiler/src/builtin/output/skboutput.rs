//! The built-in `skboutput`: writes the first bytes of a packet to a pcap file.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Access, Expr, ExprKind, Statement, StatementKind, Type};
use crate::check::value::constant;
use crate::lang::ast;
use crate::lang::diag::Diagnostic;
use crate::packets::Packets;
use kestrel_bpf::helper;

/// Bytes at the begin of a packet that can be left out: more than any headers below IP take.
const MAX_LEFT_OUT: u64 = 0xffff;

pub(crate) static SKBOUTPUT: Builtin = Builtin {
    name: "skboutput",
    numbered: false,
    usage: "skboutput(\"path\", skb, length, offset)",
    about: "write the first bytes of a packet to a pcap file, but for those before an offset (14: an Ethernet header): 0, or why the kernel did not",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 4, 4)?;
        let [path, packet, length, offset] = args.as_slice() else {
            return Err(checker.error(usage.span, "a path, a packet, a length and an offset are wanted"));
        };
        let ast::ExprKind::String(path) = &path.kind else {
            return Err(checker.error(path.span, "the path of a pcap file is a string in quotes"));
        };
        let offset_span = offset.span;
        let Some(offset) = checker.expression(offset)?.constant() else {
            return Err(checker.error(offset_span, "the offset must be known before the program runs"));
        };
        if offset > MAX_LEFT_OUT {
            let message = format!("the offset is more than {MAX_LEFT_OUT}");
            return Err(checker.error(offset_span, message));
        }
        let packet = checker.expression(packet)?;
        // As the kernel has passed it, whatever it was cast to here.
        let is_argument = matches!(
            packet.kind,
            ExprKind::Load {
                access: Access::Context,
                size: 8,
                ..
            }
        );
        let is_packet = checker.describe(&packet.ty).contains("sk_buff");
        let is_typed = is_argument && is_packet && matches!(packet.ty, Type::Pointer(to) if to.levels == 0);
        if !checker.context.program.is_tracing() || !is_typed {
            let message = "skboutput() takes a packet that the kernel vouches for: a parameter of type struct sk_buff * of fentry, fexit or a raw tracepoint";
            let hint = "fentry:napi_gro_receive { skboutput(\"receive.pcap\", args.skb, args.skb.len, 0) }";
            return Err(checker.report(Diagnostic::error(packet.span, message).hint(hint)));
        }
        let length = checker.scalar(length)?;
        let wanted = Packets {
            path: path.clone(),
            offset,
        };
        let known = checker.globals.packets.iter().position(|known| *known == wanted);
        let place = known.unwrap_or_else(|| {
            checker.globals.packets.push(wanted);
            checker.globals.packets.len() - 1
        });
        let span = usage.span;
        let kind = ExprKind::HelperCall {
            helper: helper::SKB_OUTPUT,
            operands: vec![packet, length, constant(place as u64, Type::U64, span)],
        };
        // It is written even where the program does not use the result.
        let result = checker.hidden_variable("written", Type::I64);
        let statement = Statement {
            kind: StatementKind::Set {
                variable: result,
                value: Expr::new(kind, Type::I64, span),
            },
            span,
        };
        let result = Expr::new(ExprKind::Variable(result), Type::I64, span);
        Ok(checker.behind(vec![statement], result, span))
    }),
};
