//! Times of records: those of the kernel's `CLOCK_MONOTONIC`, on which Kestrel records the kernel, so that traces of both merge.
//!
//! Asking the kernel's clock costs more than twice of what the processor's counter does. Where the kernel itself takes its time from that counter, so does this: as a line
//! through a point (a count and the ns that it stands for), which a thread lays anew several times a second, so that it goes on where it was and meets the kernel's time at
//! the next one. Elsewhere the kernel is asked.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Between two points.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// A greater distance from the kernel's time is no matter of the line's slope: the machine slept.
const FAR_NS: u64 = 1_000_000;

/// The line: `ns + (count - begin) * slope / 2^32`.
struct Line {
    /// Odd while the rest changes; 0: there is no line.
    version: AtomicU32,
    begin: AtomicU64,
    ns: AtomicU64,
    slope: AtomicU64,
}

static LINE: Line = Line {
    version: AtomicU32::new(0),
    begin: AtomicU64::new(0),
    ns: AtomicU64::new(0),
    slope: AtomicU64::new(0),
};

/// The time, ns.
#[inline(always)]
pub(crate) fn now() -> u64 {
    let version = LINE.version.load(Ordering::Acquire);
    if version == 0 || version & 1 == 1 {
        return kernel();
    }
    let (begin, ns, slope) = read();
    let count = count();
    fence(Ordering::Acquire);
    if LINE.version.load(Ordering::Relaxed) != version {
        return kernel();
    }
    at(count, (begin, ns, slope))
}

#[inline(always)]
fn read() -> (u64, u64, u64) {
    (
        LINE.begin.load(Ordering::Relaxed),
        LINE.ns.load(Ordering::Relaxed),
        LINE.slope.load(Ordering::Relaxed),
    )
}

#[inline(always)]
fn at(count: u64, (begin, ns, slope): (u64, u64, u64)) -> u64 {
    // Another processor's counter may be a few counts behind.
    let passed = count.saturating_sub(begin);
    ns.wrapping_add(((u128::from(passed) * u128::from(slope)) >> 32) as u64)
}

/// The kernel's clock, ns.
#[cold]
#[inline(never)]
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn kernel() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `CLOCK_REALTIME` when `CLOCK_MONOTONIC` was 0: seconds and ns.
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn offset() -> (u64, u32) {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let before = kernel();
    // SAFETY: writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    let wall = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let offset = wall.saturating_sub(before + (kernel() - before) / 2);
    (offset / 1_000_000_000, (offset % 1_000_000_000) as u32)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code, reason = "instructions")]
#[inline(always)]
fn count() -> u64 {
    // SAFETY: every processor of the architecture has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn count() -> u64 {
    0
}

/// A count and the kernel's time of the same moment: of several pairs, that whose two clocks were read closest together.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..20 {
        let before = count();
        let ns = kernel();
        let after = count();
        let width = after.wrapping_sub(before);
        best = best.min((width, before + width / 2, ns));
    }
    (best.1, best.2)
}

/// Lays the line anew; kept by the one thread that does.
#[derive(Debug)]
pub(crate) struct Clock {
    last: (u64, u64),
}

impl Clock {
    /// A line, where the kernel's time is a matter of the processor's counter. Takes a few ms.
    pub(crate) fn start() -> Option<Self> {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = std::fs::read_to_string(source).ok()?;
        if source.trim() != "tsc" || !cfg!(all(target_arch = "x86_64", not(miri))) {
            return None;
        }
        let first = pair();
        std::thread::sleep(Duration::from_millis(5));
        let mut clock = Self { last: first };
        clock.lay(true);
        Some(clock)
    }

    /// Lays the line through now.
    pub(crate) fn adjust(&mut self) {
        self.lay(false);
    }

    fn lay(&mut self, is_first: bool) {
        let (count, ns) = pair();
        let (counts, passed) = (count.saturating_sub(self.last.0), ns.saturating_sub(self.last.1));
        if counts == 0 || passed == 0 {
            return;
        }
        let slope = (u128::from(passed) << 32) / u128::from(counts);
        self.last = (count, ns);
        let own = at(count, read());
        let (begin_ns, slope) = if is_first || own.abs_diff(ns) > FAR_NS {
            (ns, slope)
        } else {
            // The line's error is gone at the next point.
            let ahead = i128::from(ns) - i128::from(own);
            let interval = INTERVAL.as_nanos() as i128;
            (own, (slope as i128 + slope as i128 * ahead / interval) as u128)
        };
        let version = LINE.version.load(Ordering::Relaxed);
        LINE.version.store(version | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        LINE.begin.store(count, Ordering::Relaxed);
        LINE.ns.store(begin_ns, Ordering::Relaxed);
        LINE.slope.store(slope as u64, Ordering::Relaxed);
        LINE.version
            .store((version | 1).wrapping_add(1).max(2), Ordering::Release);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // The thread that updates the line is gone.
        LINE.version.store(0, Ordering::Release);
    }
}

/// Whether times come from the processor's counter.
pub(crate) fn is_counted() -> bool {
    LINE.version.load(Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read between two looks at the kernel's clock, the time is between theirs, but for a bound: what the slope of the first few ms is wrong by (a few millionths)
    /// over one interval, and a hundredth of an interval for the thread that lays the line late.
    #[test]
    #[allow(clippy::unwrap_used, reason = "tests")]
    fn times_are_the_kernel_s() {
        let Some(mut clock) = Clock::start() else {
            println!("skipped: the kernel's clock is no counter of the processor's");
            return;
        };
        let mut worst = 0;
        for _ in 0..4 {
            for _ in 0..1000 {
                let before = kernel();
                let own = now();
                let after = kernel();
                worst = worst
                    .max(before.saturating_sub(own))
                    .max(own.saturating_sub(after));
                std::thread::sleep(Duration::from_micros(20));
            }
            clock.adjust();
        }
        assert!(worst < 50_000, "{worst} ns from the kernel's clock");
    }
}
