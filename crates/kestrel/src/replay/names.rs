//! Names of users and control groups and clock offsets of a recording: names that it keeps, of other users those of this system; times as its recorder's system did.

use crate::system_names::{SystemNames, UNIFIED};
use kestrel_catalog::catalog::Glob;
use kestrel_kernel::Host;
use kestrel_trace::info::ClockOffset;
use kestrel_trace::layout::DateClock;
use kestrel_trace::names::{KeptNames, Names};

/// The names of a recording.
#[derive(Debug)]
pub struct RecordedNames {
    kept: KeptNames,
    system: SystemNames,
    offset: i64,
}

impl RecordedNames {
    /// Names for a recording that keeps these, and whose clock is so far behind the date.
    pub fn new(host: Host, kept: KeptNames, clock: &ClockOffset) -> Self {
        Self {
            kept,
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
        let kept = self.kept.users.get(&number).cloned();
        kept.or_else(|| self.system.user(number))
    }

    fn control_group(&self, number: u64, hierarchies: &str) -> Option<String> {
        let wanted = Glob::new(hierarchies);
        let paths = self.kept.paths(number);
        let paths = paths.filter(|(name, _)| hierarchies.is_empty() || wanted.matches(name));
        let mut paths: Vec<_> = paths.collect();
        paths.sort_by_key(|(name, _)| *name != UNIFIED);
        let paths: Vec<_> = paths
            .iter()
            .map(|(name, path)| format!("{name}:{path}"))
            .collect();
        // Groups of then have no paths now.
        (!paths.is_empty()).then(|| paths.join(","))
    }

    fn clock_offset(&self, clock: DateClock) -> i64 {
        match clock {
            DateClock::Real => 0,
            DateClock::Monotonic | DateClock::Boot | DateClock::Atomic => self.offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_recording() {
        let kept = KeptNames::parse(
            "user 7 backup\ncgroup 27 cpu /\ncgroup 27 unified /gone\ncgroup 28 unified /other\n",
        );
        let names = RecordedNames::new(Host::new("/nowhere"), kept.unwrap(), &ClockOffset::default());
        assert_eq!((names.user(7).as_deref(), names.user(8)), (Some("backup"), None));
        let group = |hierarchies| names.control_group(27, hierarchies);
        assert_eq!(group("").as_deref(), Some("unified:/gone,cpu:/"));
        assert_eq!(group("uni*").as_deref(), Some("unified:/gone"));
        assert_eq!(group("memory"), None);
        assert_eq!(names.control_group(29, ""), None);
    }
}
