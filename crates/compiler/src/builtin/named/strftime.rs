//! The built-in `strftime`: a date in a format of strftime(3).

use super::made::named;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::builtin::time::nsecs::clock_of;
use crate::check::tree::Type;
use crate::check::value::narrowed;
use crate::lang::ast::ExprKind;
use kestrel_trace::layout::Named;

pub(crate) static STRFTIME: Builtin = Builtin {
    name: "strftime",
    numbered: false,
    usage: "strftime(\"format\", nsecs)",
    about: "the date of a time, as strftime(3) writes it; %f is for microseconds",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 2, 2)?;
        let [format, time] = args.as_slice() else {
            return Err(checker.error(usage.span, "a format and a time are wanted"));
        };
        let ExprKind::String(format) = &format.kind else {
            return Err(usage.wants_literal(checker, format));
        };
        let clock = clock_of(time);
        let time = usage.scalar(checker, time)?;
        let span = time.span;
        if time.ty.is_signed() && time.constant().is_some_and(|time| time.cast_signed() < 0) {
            return Err(checker.error(span, "a time is no negative number"));
        }
        let time = narrowed(time, Type::U64, span);
        let format = format.clone();
        Ok(named(Named::Date { clock, format }, vec![time], usage.span))
    }),
};
