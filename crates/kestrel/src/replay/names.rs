//! Names of users and clock offsets of a recording: users as this system does, times as its recorder's system did.

use crate::script::SystemNames;
use kestrel_kernel::Host;
use kestrel_trace::info::ClockOffset;
use kestrel_trace::layout::DateClock;
use kestrel_trace::names::Names;

/// The names of a recording.
#[derive(Debug)]
pub struct RecordedNames {
    system: SystemNames,
    offset: i64,
}

impl RecordedNames {
    /// Names for a recording whose clock is so far behind the date.
    pub fn new(host: Host, clock: &ClockOffset) -> Self {
        Self {
            system: SystemNames::new(host),
            offset: date_offset(clock),
        }
    }
}

/// Offset from times of a recording to dates, ns.
pub(super) fn date_offset(clock: &ClockOffset) -> i64 {
    let seconds = clock.seconds.saturating_mul(1_000_000_000);
    seconds.saturating_add(clock.nanoseconds.into()).cast_signed()
}

impl Names for RecordedNames {
    fn user(&self, number: u32) -> Option<String> {
        self.system.user(number)
    }

    /// Groups of then have no paths now.
    fn control_group(&self, _number: u64, _hierarchies: &str) -> Option<String> {
        None
    }

    fn clock_offset(&self, clock: DateClock) -> i64 {
        match clock {
            DateClock::Real => 0,
            DateClock::Monotonic | DateClock::Boot | DateClock::Atomic => self.offset,
        }
    }
}
