//! `nsecs`.

use super::super::{Builtin, Meaning};
use crate::check::tree::{Intrinsic, Type};

pub(crate) static NSECS: Builtin = Builtin {
    name: "nsecs",
    numbered: false,
    usage: "nsecs",
    about: "nanoseconds since the machine started, suspension left out",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(usage.intrinsic(Intrinsic::Nanoseconds, Type::U64))
    }),
};
