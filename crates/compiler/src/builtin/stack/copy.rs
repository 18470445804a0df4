//! The built-in `ustack_copy`: the bytes of the process's stack, unwound when the recording ends.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::StackMode;
use kestrel_trace::stack_pieces::{MAX, USUAL};

pub(crate) static USTACK_COPY: Builtin = Builtin {
    name: "ustack_copy",
    numbered: false,
    usage: "ustack_copy[(bytes)]",
    about: "the process's stack, copied: its frames are found when the recording ends, by .eh_frame, also those of code without frame pointers",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 0, 1)?;
        let bytes = match args.first() {
            Some(bytes) => {
                let bytes = checker.limit(bytes, MAX, "the size of a copied stack, in bytes,")?;
                bytes.next_multiple_of(8)
            }
            None => USUAL,
        };
        copied(checker, usage.span, bytes, None)
    }),
};

/// A copy of the stack, of this many bytes; its frames are shown in the mode that the program names, if it names one.
pub(super) fn copied(
    checker: &mut Checker<'_>,
    span: Span,
    bytes: u32,
    shown: Option<(StackMode, u32)>,
) -> Checked<Expr> {
    if checker.context.features.user_registers.is_none() {
        let message = "the stack cannot be copied: this kernel does not tell BPF programs of this kind a process's registers";
        let hint =
            "bpf_task_pt_regs came with Linux 5.15; ustack follows frame pointers (-g, --call-graph fp)";
        return Err(checker.report(Diagnostic::error(span, message).hint(hint)));
    }
    Ok(Expr::new(
        ExprKind::StackCopy { bytes },
        // The checker of records knows how much of it there is room for in the record itself.
        Type::StackCopy { max: None, shown },
        span,
    ))
}
