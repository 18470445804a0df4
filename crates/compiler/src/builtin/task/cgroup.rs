//! The built-in `cgroup`: the number of the task's control group.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static CGROUP: Builtin = Builtin {
    name: "cgroup",
    numbered: false,
    usage: "cgroup",
    about: "the number of the task's cgroup (version 2)",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(Intrinsic::fixed(helper::GET_CURRENT_CGROUP_ID), Type::U64))
    }),
};
