//! The built-in `cpu`: the number of the CPU.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static CPU: Builtin = Builtin {
    name: "cpu",
    numbered: false,
    usage: "cpu",
    about: "the number of the CPU",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(
            Intrinsic::fixed(helper::GET_SMP_PROCESSOR_ID),
            Type::integer(4, false),
        ))
    }),
};
