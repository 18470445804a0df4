//! The built-in `uid`: the user that the process runs as.

use super::id_pair::lower_or_upper;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Intrinsic;
use kestrel_bpf::helper;

pub(crate) static UID: Builtin = Builtin {
    name: "uid",
    numbered: false,
    usage: "uid",
    about: "the user that the process runs as",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(lower_or_upper(
            usage,
            Intrinsic::fixed(helper::GET_CURRENT_UID_GID),
            false,
        ))
    }),
};
