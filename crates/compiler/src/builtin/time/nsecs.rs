//! `nsecs`.

use crate::builtin::row::{Builtin, Meaning};
use crate::check::tree::{Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static NSECS: Builtin = Builtin {
    name: "nsecs",
    numbered: false,
    usage: "nsecs",
    about: "nanoseconds since the machine started, suspension left out",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(Intrinsic::varying(helper::KTIME_GET_NS), Type::U64))
    }),
};
