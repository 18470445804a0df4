//! `cpu`.

use super::super::{Builtin, Meaning};
use crate::check::tree::{Intrinsic, Type};

pub(crate) static CPU: Builtin = Builtin {
    name: "cpu",
    numbered: false,
    usage: "cpu",
    about: "the number of the CPU",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(Intrinsic::Cpu, Type::integer(4, false)))
    }),
};
