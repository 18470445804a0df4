//! Names of numbers that only a system knows, users and control groups, and what clocks differ by; who finds them is not known here.

use crate::layout::DateClock;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Source of names for numbers. A program that runs asks its system when it prints; a trace has what its recorder asked.
pub trait Names: Debug + Send + Sync {
    /// The name of a user.
    fn user(&self, number: u32) -> Option<String>;

    /// The paths of a control group in the hierarchies whose names match a pattern (all, where it is empty): `unified:/user.slice`, with commas between them.
    fn control_group(&self, number: u64, hierarchies: &str) -> Option<String>;

    /// Offset from times of a clock to ns since 1970.
    fn clock_offset(&self, clock: DateClock) -> i64;
}

/// Names that were asked for before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNames {
    /// Names of users.
    pub users: BTreeMap<u32, String>,
    /// Paths of control groups.
    pub control_groups: BTreeMap<u64, String>,
    /// Difference between `CLOCK_BOOTTIME` and the time since 1970, in ns.
    pub boot_offset: i64,
    /// The offset of `CLOCK_MONOTONIC`.
    pub monotonic_offset: i64,
    /// Seconds of international atomic time before those of `CLOCK_REALTIME`.
    pub leap_seconds: u32,
}

impl Names for KnownNames {
    fn user(&self, number: u32) -> Option<String> {
        self.users.get(&number).cloned()
    }

    fn control_group(&self, number: u64, _hierarchies: &str) -> Option<String> {
        self.control_groups.get(&number).cloned()
    }

    fn clock_offset(&self, clock: DateClock) -> i64 {
        match clock {
            DateClock::Boot => self.boot_offset,
            DateClock::Monotonic => self.monotonic_offset,
            DateClock::Atomic => -i64::from(self.leap_seconds) * 1_000_000_000,
            DateClock::Real => 0,
        }
    }
}

/// Names that are empty: numbers are shown as they are.
pub static NOTHING: &dyn Names = &KnownNames {
    users: BTreeMap::new(),
    control_groups: BTreeMap::new(),
    boot_offset: 0,
    monotonic_offset: 0,
    leap_seconds: 0,
};
