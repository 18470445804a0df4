//! The built-in `tid`: the number of the thread that runs.

use super::id_pair::{id_namespace, lower_or_upper};
use crate::builtin::row::{Builtin, BuiltinKind};

pub(crate) static TID: Builtin = Builtin {
    name: "tid",
    numbered: false,
    usage: "tid[(curr_ns | init)]",
    about: "the thread's number (the kernel's pid), in the PID namespace that Kestrel runs in or in the first one",
    kind: BuiltinKind::Value(|checker, usage| {
        let which = id_namespace(checker, usage)?;
        Ok(lower_or_upper(usage, which, false))
    }),
};
