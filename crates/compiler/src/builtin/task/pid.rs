//! The built-in `pid`: the number of the process that runs.

use super::id_pair::{id_namespace, lower_or_upper};
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static PID: Builtin = Builtin {
    name: "pid",
    numbered: false,
    usage: "pid[(curr_ns | init)]",
    about: "the process's number (the kernel's tgid), in the PID namespace that Kestrel runs in or in the first one",
    kind: BuiltinKind::Value(|checker, usage| {
        let which = id_namespace(checker, usage)?;
        Ok(lower_or_upper(usage, which, true))
    }),
};
