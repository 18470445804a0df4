//! Times and intervals.

use super::member::Show::{Inside, Signed};
use super::member::Structure;
use super::member::structure;

/// `struct timespec`.
pub static TIME: Structure =
    structure!(general::timespec [tv_sec = tv_sec: Signed, tv_nsec = tv_nsec: Signed,]);
/// `struct timeval`.
pub static TIME_OLD: Structure =
    structure!(general::timeval [tv_sec = tv_sec: Signed, tv_usec = tv_usec: Signed,]);
/// `struct itimerspec`.
pub static INTERVAL: Structure = structure!(general::itimerspec [it_interval = it_interval: Inside(&TIME), it_value = it_value: Inside(&TIME),]);
/// `struct itimerval`.
pub static INTERVAL_OLD: Structure = structure!(general::itimerval [it_interval = it_interval: Inside(&TIME_OLD), it_value = it_value: Inside(&TIME_OLD),]);

pub(super) const ALL: &[&Structure] = &[&TIME, &TIME_OLD, &INTERVAL, &INTERVAL_OLD];
