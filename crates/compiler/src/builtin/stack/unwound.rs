//! The built-in `dw_ustack`: the process's stack, found by `.eh_frame`; where it is printed in a copy of its memory, where it is held by the program itself ([`crate::unwind`]).

use super::copy::copied;
use super::depth::mode_and_depth;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::StackMode;

/// Bytes of the stack that are copied to find frames in; stacks are seldom larger.
const BYTES: u32 = 32 << 10;

pub(crate) static DW_USTACK: Builtin = Builtin {
    name: "dw_ustack",
    numbered: false,
    usage: "dw_ustack[([mode, ]depth)]",
    about: "the process's stack, innermost first, by .eh_frame: also of code without frame pointers, of processes named by -p, -c or --dwarf-pid",
    kind: BuiltinKind::Value(|checker, usage| {
        if !checker.globals.unwinds {
            let message = "dw_ustack requires a target process. Use -p, -c, or --dwarf-pid to specify one.";
            let hint = "its unwind tables are read; ustack follows frame pointers in any process";
            return Err(checker.report(Diagnostic::error(usage.name_span, message).hint(hint)));
        }
        let shown = mode_and_depth(checker, usage)?;
        if shown.0 == StackMode::BuildId {
            let message = "the kernel knows build ids of frames that it finds itself: ustack(build_id)";
            return Err(checker.error(usage.span, message));
        }
        copied(checker, usage.span, BYTES, Some(shown))
    }),
};
