//! Events made by clocks and counters of the kernel, one in so many ticks or counts. Each kind has a file and a row here; `counted` has the names of
//! counters that are only counted.

mod clock;
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

/// The kind of event for a counter by perf's name: `software` for `page-faults`, `hardware` for `cycles`.
pub fn counter_kind(name: &str) -> Option<&'static str> {
    match Software::find(name) {
        Some(_) => Some(software::SoftwareKind.name()),
        None => hardware::is_counter(name).then(|| hardware::Hardware.name()),
    }
}

/// The kinds of events made by clocks and counters.
pub(super) const KINDS: &[&dyn EventKind] = &[
    &interval::INTERVAL,
    &profile::PROFILE,
    &software::SoftwareKind,
    &hardware::Hardware,
    &watchpoint::Watchpoint,
];
