//! The built-in `nsecs`: the time in nanoseconds by one of the kernel's clocks.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Type};
use crate::lang::ast::{self, ExprKind};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper::{self, Helper};
use kestrel_trace::layout::DateClock;

/// A table: the clocks by name, the helper that reads each, and which dates its times are.
const CLOCKS: &[(&str, Helper, DateClock)] = &[
    ("monotonic", helper::KTIME_GET_NS, DateClock::Monotonic),
    ("boot", helper::KTIME_GET_BOOT_NS, DateClock::Boot),
    ("tai", helper::KTIME_GET_TAI_NS, DateClock::Atomic),
    ("sw_tai", helper::KTIME_GET_TAI_NS, DateClock::Atomic),
];

pub(crate) static NSECS: Builtin = Builtin {
    name: "nsecs",
    numbered: false,
    usage: "nsecs[(monotonic | boot | tai)]",
    about: "nanoseconds since the machine started, suspension left out; or of another clock",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 0, 1)?;
        let clock = match args.first() {
            None => CLOCKS[0].1,
            Some(arg) => {
                let name = match &arg.kind {
                    ExprKind::Identifier(name) => name.as_str(),
                    _ => "",
                };
                let Some((_, helper, _)) = CLOCKS.iter().find(|(known, ..)| *known == name) else {
                    let names: Vec<&str> = CLOCKS.iter().map(|(name, ..)| *name).collect();
                    let message = format!("the clocks are {}", names.join(", "));
                    let (place, known) = match &arg.kind {
                        ExprKind::Identifier(name) => (arg.span, format!("Invalid timestamp mode: {name}")),
                        kind => {
                            let given = if let ExprKind::String(_) = kind {
                                "string"
                            } else {
                                "int"
                            };
                            let known =
                                format!("nsecs() only supports timestamp_mode arguments ({given} provided)");
                            (usage.span, known)
                        }
                    };
                    return Err(checker.report(Diagnostic::error(arg.span, message).known_as(place, known)));
                };
                *helper
            }
        };
        Ok(usage.intrinsic(Intrinsic::varying(clock), Type::U64))
    }),
};

/// The clock that a time is of, as far as it is written: `nsecs(tai)`.
pub(crate) fn clock_of(time: &ast::Expr) -> DateClock {
    let ExprKind::Call { args, .. } = &time.kind else {
        return DateClock::Monotonic;
    };
    match args.first().map(|arg| &arg.value.kind) {
        Some(ExprKind::Identifier(name)) => CLOCKS
            .iter()
            .find(|(known, ..)| known == name)
            .map_or(DateClock::Monotonic, |(.., clock)| *clock),
        _ => DateClock::Monotonic,
    }
}
