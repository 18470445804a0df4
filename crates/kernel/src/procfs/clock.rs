//! The kernel's clocks and their offsets; time stamps in traces are `CLOCK_MONOTONIC` (`bpf_ktime_get_ns`).

/// Two clocks read together, to turn a monotonic time into a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// Nanoseconds of `CLOCK_MONOTONIC`: since boot, without suspend.
    pub monotonic: u64,
    /// Nanoseconds of `CLOCK_REALTIME`: since 1970-01-01 UTC.
    pub realtime: u64,
    /// Longest time between the two readings, ns.
    pub uncertainty: u64,
}

impl ClockPair {
    /// Reads both clocks several times, and keeps the pair read closest together.
    pub fn now() -> Self {
        let read = || {
            let before = read(libc::CLOCK_MONOTONIC);
            let realtime = read(libc::CLOCK_REALTIME);
            let after = read(libc::CLOCK_MONOTONIC);
            let uncertainty = after.saturating_sub(before);
            Self {
                monotonic: before + uncertainty / 2,
                realtime,
                uncertainty,
            }
        };
        let mut best = read();
        for _ in 0..9 {
            let pair = read();
            if pair.uncertainty < best.uncertainty {
                best = pair;
            }
        }
        best
    }

    /// Nanoseconds to add to a monotonic time to get the date.
    pub fn offset(&self) -> i64 {
        self.realtime.wrapping_sub(self.monotonic) as i64
    }
}

/// Nanoseconds of `CLOCK_REALTIME`: since 1970.
pub fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of `bpf_ktime_get_ns`.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_BOOTTIME`: since boot, suspend included; the clock of process start times.
pub fn boottime() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds of `CLOCK_TAI`: since 1970-01-01, leap seconds counted.
pub fn atomic_time() -> u64 {
    read(libc::CLOCK_TAI)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec of this process; these clocks exist on every kernel.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn the_pair_turns_monotonic_into_the_date() {
        let pair = ClockPair::now();
        let date = monotonic().wrapping_add_signed(pair.offset());
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(date.abs_diff(system) < 1_000_000_000, "{date} {system}");
        assert!(boottime() >= pair.monotonic);
    }
}
