//! The built-in `debugf`: writes a line to the kernel's trace buffer.

use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static DEBUGF: Builtin = Builtin {
    name: "debugf",
    numbered: false,
    usage: "debugf(\"format\"[, value, …])",
    about: "write a line to the kernel's trace buffer, where trace_pipe shows it: the format is one of bpf_trace_printk",
    kind: BuiltinKind::Statement(|checker, usage| checker.kernel_line(usage)),
};
