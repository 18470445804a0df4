//! `ustack_copy`.

use crate::builtin::row::{Builtin, Meaning};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::COPIED_REGISTERS;
use kestrel_trace::packet::CAPACITY;

pub(crate) static USTACK_COPY: Builtin = Builtin {
    name: "ustack_copy",
    numbered: false,
    usage: "ustack_copy[(bytes)]",
    about: "the process's stack, copied: its frames are found when the recording ends, by .eh_frame, also those of code without frame pointers",
    meaning: Meaning::Value(|checker, usage| {
        let args = usage.positional(checker, 0, 1)?;
        let max = match args.first() {
            Some(bytes) => {
                let most = CAPACITY - COPIED_REGISTERS * 8;
                Some(checker.limit(bytes, most, "the size of a copied stack, in bytes,")? & !7)
            }
            None => None,
        };
        if checker.context.features.user_registers.is_none() {
            let message = "the stack cannot be copied: this kernel does not tell BPF programs of this kind a process's registers";
            let hint =
                "bpf_task_pt_regs came with Linux 5.15; ustack follows frame pointers (-g, --call-graph fp)";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        }
        Ok(Expr::new(
            ExprKind::StackCopy,
            Type::StackCopy {
                max: max.map(|bytes| bytes.max(8)),
            },
            usage.span,
        ))
    }),
};
