//! `probe`.

use super::super::{Builtin, Meaning};
use crate::check::text_constant;
use crate::context::EventNumber;
use crate::lang::diag::Diagnostic;

pub(crate) static PROBE: Builtin = Builtin {
    name: "probe",
    numbered: false,
    usage: "probe",
    about: "the event's name",
    meaning: Meaning::Value(|checker, usage| {
        usage.alone(checker)?;
        if matches!(checker.context.number, EventNumber::Cookie { .. }) {
            let message = "one program serves all of these events, so it cannot name the one it runs for";
            let hint = "leave it out: every record bears the name of its event; or name one event";
            return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
        }
        Ok(text_constant(&checker.context.name, usage.span))
    }),
};
