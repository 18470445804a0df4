//! `time`: the date of the record, where bpftrace has that of its being read.

use super::reached::{Effect, Output};
use crate::date;
use crate::layout::DateClock;
use crate::print::raw;

pub(super) static TIME: Output = Output {
    verb: "time",
    needs_trust: false,
    effect: |reached| {
        let format = match reached.text {
            "" => "%H:%M:%S\n",
            format => format,
        };
        let offset = reached.symbols.names().clock_offset(DateClock::Monotonic);
        let text = date::written(format, reached.time_ns, offset);
        Effect::Print(reached.form.data("time", raw::to_bytes(&text).into_owned()))
    },
};
