//! The built-in `jiffies`: the kernel's count of timer ticks.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static JIFFIES: Builtin = Builtin {
    name: "jiffies",
    numbered: false,
    usage: "jiffies",
    about: "the ticks of the kernel's clock since the machine started",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(Intrinsic::varying(helper::JIFFIES64), Type::U64))
    }),
};
