//! Events that a clock or a counter of the kernel makes, one in so many: each kind has its own file, and a row here; `counted` their names
//! where they are only counted.

pub mod counted;
mod event;
mod hardware;
pub mod interval;
mod period;
pub mod pmu;
mod profile;
mod software;
mod watchpoint;

use super::kind::EventKind;
use kestrel_kernel::perf::Software;

/// The kind of the counter that perf calls so: `software` for `page-faults`, `hardware` for `cycles`.
pub fn counter_kind(name: &str) -> Option<&'static str> {
    match Software::find(name) {
        Some(_) => Some(software::SoftwareKind.name()),
        None => hardware::is_counter(name).then(|| hardware::Hardware.name()),
    }
}

/// Rows of these kinds.
pub(super) const KINDS: &[&dyn EventKind] = &[
    &interval::Interval,
    &profile::Profile,
    &software::SoftwareKind,
    &hardware::Hardware,
    &watchpoint::Watchpoint,
];
