//! Events that a clock or a counter of the kernel makes, one in so many: each kind has its own file, and a row here; `counted` their names
//! where they are only counted.

pub mod counted;
mod event;
mod hardware;
mod interval;
mod period;
mod profile;
mod software;

use super::kind::EventKind;

/// These kinds.
pub(super) const KINDS: &[&dyn EventKind] = &[
    &interval::Interval,
    &profile::Profile,
    &software::SoftwareKind,
    &hardware::Hardware,
];
