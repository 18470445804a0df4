//! The built-in `probe`: the name of the event.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::value::string_constant;
use kestrel_trace::layout::EventName;

pub(crate) static PROBE: Builtin = Builtin {
    name: "probe",
    numbered: false,
    usage: "probe",
    about: "the event's name",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let context = checker.context;
        if context.members.is_empty() {
            return Ok(string_constant(&context.name, usage.span));
        }
        Ok(checker.event_number(EventName::Event, usage.span))
    }),
};
