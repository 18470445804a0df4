//! `pid`.

use super::half::half;
use crate::builtin::row::{Builtin, Meaning};
use crate::check::tree::Intrinsic;
use kestrel_bpf::helper;

pub(crate) static PID: Builtin = Builtin {
    name: "pid",
    numbered: false,
    usage: "pid",
    about: "the process's number (the kernel's tgid)",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(half(usage, Intrinsic::fixed(helper::GET_CURRENT_PID_TGID), true))
    }),
};
