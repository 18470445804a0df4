//! Times and names of the scheduler's tables as text, as perf shows them.

use kestrel_trace::print::shown;
use kestrel_trace::sched::Who;

/// A duration in ms, to the microsecond.
pub(super) fn milliseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// A time of the trace's clock in seconds, to the microsecond.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}

/// `comm:tid`; what a terminal would obey is spelled out.
pub(super) fn short(who: &Who) -> String {
    shown(&who.short()).into_owned()
}

/// `comm[tid/pid]`.
pub(super) fn long(who: &Who) -> String {
    shown(&who.long()).into_owned()
}
