//! The built-in `gid`: the group that the process runs as.

use super::half::half;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Intrinsic;
use kestrel_bpf::helper;

pub(crate) static GID: Builtin = Builtin {
    name: "gid",
    numbered: false,
    usage: "gid",
    about: "the group that the process runs as",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(half(usage, Intrinsic::fixed(helper::GET_CURRENT_UID_GID), true))
    }),
};
