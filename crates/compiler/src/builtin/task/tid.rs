//! `tid`.

use super::half::half;
use crate::builtin::row::{Builtin, Meaning};
use crate::check::tree::Intrinsic;
use kestrel_bpf::helper;

pub(crate) static TID: Builtin = Builtin {
    name: "tid",
    numbered: false,
    usage: "tid",
    about: "the thread's number (the kernel's pid)",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(half(usage, Intrinsic::fixed(helper::GET_CURRENT_PID_TGID), false))
    }),
};
