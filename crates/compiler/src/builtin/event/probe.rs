//! `probe`.

use super::super::{Builtin, Meaning};
use crate::check::text_constant;

pub(crate) static PROBE: Builtin = Builtin {
    name: "probe",
    numbered: false,
    usage: "probe",
    about: "the event's name",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        Ok(text_constant(&checker.context.name, usage.span))
    }),
};
