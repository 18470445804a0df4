//! Clocks of printed times: the kernel's, those of a clock on the wall, since the start, since the record before; and how they look in lines.

use crate::print::{Piece, Scratch, padded};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Origin of a record's printed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// The machine's start, as the kernel counts it (`CLOCK_MONOTONIC`).
    #[default]
    Monotonic,
    /// 1970; lines have the time of day where the reader is.
    Wall {
        /// ns of the wall clock when the monotonic one was 0.
        offset_ns: u64,
    },
    /// The trace's first record.
    Start {
        /// The time, ns.
        begin_ns: u64,
    },
    /// The record before that was written.
    Delta,
}

/// A clock that is asked once for each record that is written.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    times: Times,
    previous_ns: Option<u64>,
    zone: TimeZone,
    /// A second, and how it stands in lines: with the point behind it.
    second: (u64, Piece),
}

impl Clock {
    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            previous_ns: None,
            zone: TimeZone::system(),
            second: (u64::MAX, Piece::default()),
        }
    }

    /// The time of a record in ns.
    pub(super) fn ns(&mut self, time_ns: u64) -> u64 {
        let previous = self.previous_ns.replace(time_ns).unwrap_or(time_ns);
        match self.times {
            Times::Monotonic => time_ns,
            Times::Wall { offset_ns } => time_ns.saturating_add(offset_ns),
            Times::Start { begin_ns } => time_ns.saturating_sub(begin_ns),
            Times::Delta => time_ns.saturating_sub(previous),
        }
    }

    /// Appends the time of a record as lines have it: seconds, or a time of day.
    pub(super) fn text(&mut self, time_ns: u64, nanoseconds: bool, out: &mut Vec<u8>) {
        let (seconds, ns) = self.split(time_ns);
        out.extend_from_slice(self.second(seconds).text());
        match nanoseconds {
            true => padded(ns, 9, b'0', out),
            false => padded(ns / 1000, 6, b'0', out),
        }
    }

    /// Writes a time into a line under construction.
    #[inline]
    pub(super) fn write(&mut self, time_ns: u64, nanoseconds: bool, line: &mut Scratch) {
        let (seconds, ns) = self.split(time_ns);
        line.piece(self.second(seconds));
        match nanoseconds {
            true => {
                line.digits6(ns / 1000);
                line.digits3(ns % 1000);
            }
            false => line.digits6(ns / 1000),
        }
    }

    fn split(&mut self, time_ns: u64) -> (u64, u64) {
        let time = self.ns(time_ns);
        (time / 1_000_000_000, time % 1_000_000_000)
    }

    /// `   123.` or `12:03:04.`, made once for each second.
    #[inline]
    fn second(&mut self, seconds: u64) -> &Piece {
        if self.second.0 != seconds {
            self.begin_second(seconds);
        }
        &self.second.1
    }

    #[cold]
    fn begin_second(&mut self, seconds: u64) {
        let mut text = Vec::new();
        match self.times {
            Times::Wall { .. } => {
                let moment = Timestamp::from_second(seconds.cast_signed()).unwrap_or_default();
                let time = moment.to_zoned_datetime(self.zone.clone()).time();
                let (hour, minute, second) = (time.hour(), time.minute(), time.second());
                text.extend_from_slice(format!("{hour:02}:{minute:02}:{second:02}").as_bytes());
            }
            Times::Monotonic | Times::Start { .. } | Times::Delta => padded(seconds, 6, b' ', &mut text),
        }
        text.push(b'.');
        self.second = (seconds, Piece::new(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(times: Times, records: &[u64]) -> Vec<String> {
        let mut clock = Clock::new(times);
        clock.zone = TimeZone::UTC;
        let mut line = |time: &u64| {
            let mut out = Vec::new();
            clock.text(*time, false, &mut out);
            String::from_utf8(out).unwrap()
        };
        records.iter().map(&mut line).collect()
    }

    #[test]
    fn a_time_is_counted_from_the_requested_start() {
        let records = [5_000_001_000, 5_250_001_000, 7_250_002_999];
        let offset_ns = 1_700_000_000_000_000_000;
        for (times, expected) in [
            (
                Times::Monotonic,
                ["     5.000001", "     5.250001", "     7.250002"],
            ),
            (
                Times::Start { begin_ns: records[0] },
                ["     0.000000", "     0.250000", "     2.250001"],
            ),
            (Times::Delta, ["     0.000000", "     0.250000", "     2.000001"]),
            (
                Times::Wall { offset_ns },
                ["22:13:25.000001", "22:13:25.250001", "22:13:27.250002"],
            ),
        ] {
            assert_eq!(shown(times, &records), expected, "{times:?}");
        }
    }
}
