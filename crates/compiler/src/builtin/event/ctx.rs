//! The built-in `ctx`: the address of the program's context.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, Pointee, Pointer, Type};
use crate::context::ProgramKind;
use crate::lang::diag::Diagnostic;
use kestrel_bpf::btf::BtfKind;
use kestrel_trace::layout::Space;

/// Events that the program fires itself.
const OWN: &[&str] = &["begin", "end", "BEGIN", "END"];

pub(crate) static CTX: Builtin = Builtin {
    name: "ctx",
    numbered: false,
    usage: "ctx",
    about: "the address of what the kernel gives the program: registers (ctx.ip) at kprobe and uprobe, those and sample_period at counters and clocks; elsewhere a cast says what lies there",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        if checker.globals.infers_types && OWN.contains(&checker.context.name.as_str()) {
            let message = format!(
                "The ctx builtin can not be used with '{}' probes",
                checker.context.name
            );
            let hint = "the kernel gives no context to begin and end, which the program fires itself";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        }
        let structure = match checker.context.program {
            ProgramKind::Kprobe | ProgramKind::Kretprobe => Some("pt_regs"),
            ProgramKind::PerfEvent => Some("bpf_perf_event_data"),
            _ => None,
        };
        let known = structure.zip(checker.btf());
        let to = known.and_then(|(name, btf)| btf.find(BtfKind::Struct, name));
        let untyped = Pointer::untyped(Space::Kernel);
        let ty = Type::Pointer(Pointer {
            to: to.map_or(untyped.to, Pointee::Btf),
            ..untyped
        });
        Ok(Expr::new(ExprKind::ContextPointer, ty, usage.span))
    }),
};
