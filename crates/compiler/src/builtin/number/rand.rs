//! The built-in `rand`: a random number.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static RAND: Builtin = Builtin {
    name: "rand",
    numbered: false,
    usage: "rand",
    about: "a random number of 32 bits",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(
            Intrinsic::varying(helper::GET_PRANDOM_U32),
            Type::integer(4, false),
        ))
    }),
};
