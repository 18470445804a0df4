//! The built-in `gid`: the group that the process runs as.

use super::id_pair::lower_or_upper;
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
        Ok(lower_or_upper(
            usage,
            Intrinsic::fixed(helper::GET_CURRENT_UID_GID),
            true,
        ))
    }),
};
