//! Periods of clock events as users write them: `ms:100`, `hz:99`, `100ms`.

use crate::catalog::glob::Glob;
use crate::error::{Error, Result};
use kestrel_compiler::lang::ast::{EventPart, EventSpec};
use kestrel_compiler::lang::number_of;

/// Units of a period: name and nanoseconds. `hz` is a frequency instead.
const UNITS: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const HERTZ: &str = "hz";
/// Units that durations have besides (`1m`).
const OF_DURATIONS: &[(&str, u64)] = &[
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Nanoseconds that a period given as a duration has at least, as in bpftrace.
const MIN_DURATION: u64 = 1000;
/// Shortest period in ns: the kernel makes it no shorter, whatever is asked (`perf_swevent_hrtimer` in kernel/events/core.c).
const SHORTEST: u64 = 10_000;
/// Longest period in ns: perf refuses one with the highest bit set (`perf_event_open` in kernel/events/core.c).
const LONGEST: u64 = i64::MAX as u64;

/// Period of a clock's event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Period {
    /// The period in an event's name: `ms:100`; for a duration `us:100000`, or `ns:20500` where it is no whole number of µs.
    pub(super) name: String,
    /// Nanoseconds from one to the next.
    pub(super) nanoseconds: u64,
}

/// Sample names of a clock's events, where a pattern may mean them; or the one event that is named.
pub(super) fn names(kind: &str, patterns: &[Glob], found: &mut dyn FnMut(&str)) {
    if let [unit, count] = patterns
        && unit.is_plain()
        && let Ok(period) = Period::of(kind, unit.text(), count.text())
    {
        return found(&period.name);
    }
    let units = UNITS.iter().map(|(name, _)| *name).chain([HERTZ]);
    for unit in units {
        let fits = |(pattern, text): (&Glob, &str)| pattern.matches(text);
        if patterns.iter().zip([unit, "COUNT"]).all(fits) {
            found(&format!("{unit}:COUNT"));
        }
    }
}

impl Period {
    /// Parses the parts behind the kind.
    pub(super) fn parse(kind: &str, spec: &EventSpec) -> Result<Self> {
        let plain = |part: &EventPart| match part.offset {
            None => Ok(part.text.clone()),
            Some(_) => Err(shape(kind, spec)),
        };
        match &spec.parts[1..] {
            [unit, count] => Self::of(kind, &plain(unit)?, &plain(count)?),
            [both] => Self::duration(kind, &plain(both)?),
            _ => Err(shape(kind, spec)),
        }
    }

    /// `100ms`, `5hz`, or a number of nanoseconds.
    fn duration(kind: &str, written: &str) -> Result<Self> {
        let digits = written.find(|c: char| !c.is_ascii_digit() && c != '_');
        let (count, unit) = match digits {
            // `1e7` and `0x10` have letters and no unit.
            Some(_) if number_of(written).is_some() => (written, "ns"),
            Some(digits) => written.split_at(digits),
            None => (written, "ns"),
        };
        if count.is_empty() {
            return Err(wrong(kind, written, "the number is missing"));
        }
        if unit == HERTZ {
            return Self::scaled(kind, written, unit, count, None);
        }
        let scale = UNITS.iter().chain(OF_DURATIONS).find(|row| row.0 == unit);
        let Some((_, scale)) = scale else {
            let why = format!("\"{unit}\" is no unit: they are ns, us, ms, s, m, h, d and hz");
            return Err(wrong(kind, written, &why));
        };
        let Self { nanoseconds, .. } = Self::scaled(kind, written, unit, count, Some(*scale))?;
        // A number alone is mostly meant as times a second.
        let number = count.parse::<u64>().ok().or_else(|| number_of(count));
        if unit == "ns" && number.is_some_and(|number| number < MIN_DURATION) {
            let why = format!(
                "{count} nanoseconds are less than {MIN_DURATION}, the shortest period; {count} times a second are {kind}:hz:{count}"
            );
            return Err(wrong(kind, written, &why));
        }
        // The event is named by its microseconds, whatever unit was written, as in bpftrace. Periods with a fraction of one are named by nanoseconds: two events of one name are one.
        let name = match nanoseconds % 1000 {
            0 => format!("us:{}", nanoseconds / 1000),
            _ => format!("ns:{nanoseconds}"),
        };
        Ok(Self { name, nanoseconds })
    }

    fn of(kind: &str, unit: &str, count: &str) -> Result<Self> {
        let written = format!("{unit}:{count}");
        let scale = UNITS.iter().find(|(name, _)| *name == unit);
        if scale.is_none() && unit != HERTZ {
            let why = format!("\"{unit}\" is no unit: they are s, ms, us, ns and hz");
            return Err(wrong(kind, &written, &why));
        }
        Self::scaled(
            kind,
            &written,
            unit,
            count,
            scale.map(|(_, nanoseconds)| *nanoseconds),
        )
    }

    /// Period of `count` units of `scale` ns; without a scale, of `count` in a second.
    fn scaled(kind: &str, written: &str, unit: &str, count: &str, scale: Option<u64>) -> Result<Self> {
        let wrong = |why: String| wrong(kind, written, &why);
        let decimal = count.parse::<u64>().ok();
        let number = decimal.or_else(|| number_of(count)).ok_or_else(|| match count {
            "" => wrong("the number is missing".to_owned()),
            count => wrong(format!("\"{count}\" is not a number of {unit}")),
        })?;
        if number == 0 {
            return Err(wrong(
                "it would never come; the number must be at least 1".to_owned(),
            ));
        }
        let nanoseconds = match scale {
            Some(nanoseconds) => number.checked_mul(nanoseconds).map(|asked| asked.max(SHORTEST)),
            None => Some(1_000_000_000 / number),
        };
        match nanoseconds {
            Some(nanoseconds) if nanoseconds < SHORTEST => Err(wrong(
                "the kernel's clock makes an event every 10 µs (100,000 a second) at most; ask for fewer"
                    .to_owned(),
            )),
            Some(nanoseconds) if nanoseconds <= LONGEST => Ok(Self {
                name: format!("{unit}:{number}"),
                nanoseconds,
            }),
            _ => Err(wrong(
                "that is longer than the kernel can count (292 years)".to_owned(),
            )),
        }
    }
}

fn wrong(kind: &str, written: &str, why: &str) -> Error {
    Error::WrongShape {
        wanted: format!("{kind}:{written}"),
        shape: format!("{}; {why}", how(kind)),
    }
}

fn shape(kind: &str, spec: &EventSpec) -> Error {
    Error::wrong_shape(spec, &how(kind))
}

fn how(kind: &str) -> String {
    format!("{kind}:UNIT:COUNT, such as {kind}:ms:100 or {kind}:hz:99")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_events;

    fn period(text: &str) -> Result<Period> {
        let (probe, diagnostics) = parse_events(text);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        Period::parse("interval", &probe.events[0])
    }

    #[test]
    fn units_count_nanoseconds() {
        for (text, name, nanoseconds) in [
            ("interval:s:2", "s:2", 2_000_000_000),
            ("interval:ms:050", "ms:50", 50_000_000),
            ("interval:us:10", "us:10", 10_000),
            ("interval:us:1", "us:1", 10_000),
            ("interval:1e7", "us:10000", 10_000_000),
            ("interval:1_000_000", "us:1000", 1_000_000),
            ("interval:0x100000", "ns:1048576", 1_048_576),
            ("interval:1_000us", "us:1000", 1_000_000),
            ("interval:hz:99", "hz:99", 10_101_010),
            ("interval:100ms", "us:100000", 100_000_000),
            ("interval:5hz", "hz:5", 200_000_000),
            ("interval:1000000", "us:1000", 1_000_000),
            ("interval:20000ns", "us:20", 20_000),
            ("interval:20500ns", "ns:20500", 20_500),
            ("interval:10101010", "ns:10101010", 10_101_010),
            ("interval:ns:20500", "ns:20500", 20_500),
            ("interval:1m", "us:60000000", 60_000_000_000),
            ("interval:2d", "us:172800000000", 172_800_000_000_000),
        ] {
            let name = name.to_owned();
            assert_eq!(period(text).unwrap(), Period { name, nanoseconds }, "{text}");
        }
    }

    #[test]
    fn names_distinguish_periods_and_can_be_written_again() {
        for text in [
            "20us", "20500ns", "20900ns", "20001", "10101010", "3m", "99hz", "1s",
        ] {
            let written = period(&format!("interval:{text}")).unwrap();
            let again = period(&format!("interval:{}", written.name)).unwrap();
            assert_eq!(again, written, "{text}");
        }
        let name = |text: &str| period(text).unwrap().name;
        assert_ne!(name("interval:20500ns"), name("interval:20900ns"));
    }

    #[test]
    fn unsupported_clocks_are_refused_by_name() {
        for (text, why) in [
            ("interval:ms:0", "at least 1"),
            ("interval:hz:0", "at least 1"),
            ("interval:hz:100001", "every 10 µs"),
            ("interval:s:9223372037", "292 years"),
            ("interval:s:99999999999999999999", "not a number"),
            ("interval:ms:*", "not a number"),
            ("interval:weeks:1", "no unit"),
            ("interval:ms", "UNIT:COUNT"),
            ("interval:0", "at least 1"),
            ("interval:99", "99 times a second are interval:hz:99"),
            ("interval:999ns", "less than 1000"),
            ("interval:300000000d", "292 years"),
            ("interval:m:1", "no unit"),
            ("interval:m", "the number is missing"),
            ("interval:5min", "interval:5min"),
            (
                "interval:5min",
                "\"min\" is no unit: they are ns, us, ms, s, m, h, d and hz",
            ),
            ("interval:20000000000000000000ns", "not a number of ns"),
            ("interval:20000000000000000000", "not a number of ns"),
            ("interval", "UNIT:COUNT"),
            ("interval:ms:1:2", "UNIT:COUNT"),
            ("interval:ms:1+8", "UNIT:COUNT"),
        ] {
            let error = period(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
