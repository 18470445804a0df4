//! Moments of a trace as people name them: seconds since its start, a time of day, a time as lines show it.

use crate::error::{Error, Result};
use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use std::time::Duration;

/// A moment as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A time after the first record.
    Start(Duration),
    /// A time after another moment: `+1.5`.
    After(Duration),
    /// Time since boot as lines show it: `@17284.993652`.
    Monotonic(Duration),
    /// A time of the first day of the trace, or of the next one: `12:03:04.5`.
    OfDay(Time),
    /// A date and a time of day.
    Date(DateTime),
    /// A moment in whatever time zone.
    Wall(Timestamp),
}

/// The clocks of a trace.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// Time of its first record, ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// ns since 1970 when that clock was 0.
    pub offset_ns: u64,
    zone: TimeZone,
}

impl Clocks {
    /// Clocks of a trace that is read here: times of day are those of this machine's time zone.
    pub fn here(begin_ns: u64, offset_ns: u64) -> Self {
        Self {
            begin_ns,
            offset_ns,
            zone: TimeZone::system(),
        }
    }

    /// When it was this date and time.
    fn moment(&self, date: DateTime) -> Option<Timestamp> {
        Some(date.to_zoned_datetime(self.zone.clone()).ok()?.timestamp())
    }

    /// When it was this time of the day on which the trace began, or of the next one.
    fn of_day(&self, time: Time) -> Option<Timestamp> {
        let begin =
            Timestamp::from_nanosecond(i128::from(self.begin_ns) + i128::from(self.offset_ns)).ok()?;
        let today = begin.to_zoned_datetime(self.zone.clone()).date();
        let moment = self.moment(today.to_datetime(time))?;
        match begin.as_second() - moment.as_second() > HALF_DAY {
            true => self.moment(today.tomorrow().ok()?.to_datetime(time)),
            false => Some(moment),
        }
    }
}

impl Moment {
    /// Reads a moment: `1.5`, `250ms`, `+2`, `@17284.99`, `12:03:04.5`, `2026-11-24T12:03:04`, the same with `Z` or `+01:00`. `17284.99:`, copied from a line with
    /// its colon, is `@17284.99`, and a time of day with one more colon is that time of day.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::Time {
            text: text.to_owned(),
            why,
        };
        let of_line = text.strip_suffix(':');
        // A time of day that was copied from a line of `--time wall`.
        if let Some(time) = of_line.filter(|time| time.contains(':')) {
            return Self::parse(time.trim_end_matches(':'));
        }
        if let Some(time) = of_line.or_else(|| text.strip_prefix('@')) {
            let seconds = time.strip_prefix('@').unwrap_or(time);
            return duration(seconds).map(Self::Monotonic).map_err(wrong);
        }
        if let Some(rest) = text.strip_prefix('+') {
            return duration(rest).map(Self::After).map_err(wrong);
        }
        if let Ok(moment) = text.parse() {
            return Ok(Self::Wall(moment));
        }
        if text.contains(['T', ' ', '-'])
            && let Ok(date) = text.parse()
        {
            return Ok(Self::Date(date));
        }
        match text.contains(':') {
            true => text
                .parse()
                .map(Self::OfDay)
                .map_err(|e: jiff::Error| wrong(e.to_string())),
            false => duration(text).map(Self::Start).map_err(wrong),
        }
    }

    /// The time in ns of `CLOCK_MONOTONIC`; `base_ns` is what [`Moment::After`] is after.
    pub fn ns(self, clocks: &Clocks, base_ns: u64) -> u64 {
        let wall = |moment: Timestamp| {
            let ns = moment.as_nanosecond() - i128::from(clocks.offset_ns);
            // A time before the machine started is before all records.
            u64::try_from(ns).unwrap_or(if ns < 0 { 0 } else { u64::MAX })
        };
        match self {
            Self::Start(since) => clocks.begin_ns.saturating_add(nanoseconds(since)),
            Self::After(since) => base_ns.saturating_add(nanoseconds(since)),
            Self::Monotonic(time) => nanoseconds(time),
            Self::Wall(moment) => wall(moment),
            Self::Date(date) => clocks.moment(date).map_or(u64::MAX, wall),
            Self::OfDay(time) => clocks.of_day(time).map_or(u64::MAX, wall),
        }
    }
}

/// A time that had passed so many seconds before the trace began is meant to be after midnight.
const HALF_DAY: i64 = 12 * 3600;

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds, or a number with a unit. The digits are read one by one: as a floating number, times of long uptimes would lose their last ones.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1_000_000_000u64,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        "m" | "min" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        other => return Err(format!("`{other}` is not a unit; use ns, us, ms, s, m or h")),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || digits.is_empty() || digits == "." {
        return Err(
            "give seconds (`1.5`), a time of day (`12:03:04.5`), or a time as lines show it (`@17284.99`)"
                .to_owned(),
        );
    }
    let long = |_| "it is too long".to_owned();
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(long)?
    };
    let part: u128 = format!("{part:0<9}")[..9].parse().map_err(long)?;
    let ns = u128::from(whole) * u128::from(unit) + part * u128::from(unit) / 1_000_000_000;
    u64::try_from(ns)
        .map(Duration::from_nanos)
        .map_err(|_| "it is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A machine that started on 2023-11-14 at 22:13:20 UTC, and a trace that began 100 s later.
    fn ns(text: &str) -> u64 {
        let clocks = Clocks {
            begin_ns: 100 * SECOND,
            offset_ns: 1_700_000_000 * SECOND,
            zone: TimeZone::UTC,
        };
        Moment::parse(text).unwrap().ns(&clocks, 7 * SECOND)
    }

    #[test]
    fn a_moment_is_named_in_several_ways() {
        for (text, expected) in [
            ("0", 100 * SECOND),
            ("1.5", 101 * SECOND + SECOND / 2),
            ("250ms", 100 * SECOND + SECOND / 4),
            ("+2", 9 * SECOND),
            ("@17284.993652", 17_284_993_652_000),
            ("@17284.993652:", 17_284_993_652_000),
            ("17284.993652:", 17_284_993_652_000),
            ("@123456789.123456789", 123_456_789_123_456_789),
            ("22:15:00", 100 * SECOND),
            ("22:15:04.5", 104 * SECOND + SECOND / 2),
            ("22:15", 100 * SECOND),
            ("22:15:04.5:", 104 * SECOND + SECOND / 2),
            ("22:14:59", 99 * SECOND),
            ("01:13:20", 3 * 3600 * SECOND),
            ("2023-11-14T22:15:01", 101 * SECOND),
            ("2023-11-14T23:15:01+01:00", 101 * SECOND),
            ("2023-11-14T22:15:01Z", 101 * SECOND),
            ("1999-01-01T00:00:00Z", 0),
        ] {
            assert_eq!(ns(text), expected, "{text}");
        }
        for wrong in ["", ":", "::", "x", "1.5.5", "1 fortnight", "25:00:00", "-1", "."] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
    }
}
