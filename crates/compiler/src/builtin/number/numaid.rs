//! The built-in `numaid`: the number of the CPU's NUMA node.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use kestrel_bpf::helper;

pub(crate) static NUMAID: Builtin = Builtin {
    name: "numaid",
    numbered: false,
    usage: "numaid",
    about: "the number of the NUMA node that the CPU belongs to",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let ty = Type::integer(4, false);
        Ok(usage.intrinsic(Intrinsic::fixed(helper::GET_NUMA_NODE_ID), ty))
    }),
};
