//! The built-in `signal_thread`: sends a signal to the thread that runs.

use super::signal::sent;
use crate::builtin::row::{Builtin, BuiltinKind};
use kestrel_bpf::helper;

pub(crate) static SIGNAL_THREAD: Builtin = Builtin {
    name: "signal_thread",
    numbered: false,
    usage: "signal_thread(\"NAME\" | number)",
    about: "send a signal to the thread that runs, where signal() sends it to its process",
    kind: BuiltinKind::Statement(|checker, usage| {
        sent(checker, usage, "signal_thread", helper::SEND_SIGNAL_THREAD)
    }),
};
