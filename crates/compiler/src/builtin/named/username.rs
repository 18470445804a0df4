//! The built-in `username`: the name of the user that the process runs as.

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use crate::check::value::narrowed;
use kestrel_bpf::helper;
use kestrel_trace::layout::Named;

pub(crate) static USERNAME: Builtin = Builtin {
    name: "username",
    numbered: false,
    usage: "username",
    about: "the name of the user that the process runs as",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let both = usage.intrinsic(Intrinsic::fixed(helper::GET_CURRENT_UID_GID), Type::U64);
        let user = narrowed(both, Type::integer(4, false), usage.span);
        Ok(named(Named::User, vec![user], usage.span))
    }),
};
