//! Durations of guest tests, measured by earlier runs, and the summary of them at the end of a run. It runs nothing.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf, time::Duration};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::guest::cache::Cache;

/// The expected time of an unknown test, in seconds.
const UNKNOWN: f64 = 3.0;

/// Number of the slowest tests that are shown.
const SLOWEST: usize = 10;

/// One test's run on one kernel.
#[derive(Debug, Clone)]
pub(crate) struct Took {
    pub(crate) series: String,
    /// `file::test`.
    pub(crate) test: String,
    /// From the request to the answer, with the guest's start where the test was its first.
    pub(crate) wall: Duration,
    /// The emulator's processor time meanwhile.
    pub(crate) busy: Duration,
}

/// Seconds of a processor that each test took when it ran last, by kernel and name. On a fresh machine nothing is known.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Memory(BTreeMap<String, BTreeMap<String, f64>>);

/// Where that lies: beside the kernels, so that a fresh clone on the same machine knows it, too.
fn place() -> Result<PathBuf> {
    Ok(Cache::open()?.folder("pace")?.join("pace.json"))
}

impl Memory {
    /// Times that earlier runs left; nothing where they cannot be read.
    pub(crate) fn recall() -> Self {
        let text = place().and_then(|place| Ok(fs::read(place)?)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The expected time of a test: what it took on this kernel, or on another, or a guess.
    pub(crate) fn expected(&self, series: &str, test: &str) -> f64 {
        let here = self.0.get(series).and_then(|tests| tests.get(test));
        let elsewhere = || self.0.values().find_map(|tests| tests.get(test));
        here.or_else(elsewhere).copied().unwrap_or(UNKNOWN)
    }

    /// Remembers a run. It is about order only: where it cannot be written, the next run begins with guesses.
    pub(crate) fn keep(mut self, run: &[Took]) {
        for took in run {
            let tests = self.0.entry(took.series.clone()).or_default();
            tests.insert(took.test.clone(), took.busy.as_secs_f64());
        }
        if let (Ok(text), Ok(place)) = (serde_json::to_vec(&self), place()) {
            let beside = place.with_extension(std::process::id().to_string());
            let _ = fs::write(&beside, text).and_then(|()| fs::rename(&beside, place));
        }
    }
}

/// Times of a run of guest tests, as a person reads them.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// From the first guest's start to the last one's end.
    pub(crate) wall: Duration,
    /// Guests at one time.
    pub(crate) guests: usize,
    pub(crate) run: Vec<Took>,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds =
            |of: fn(&Took) -> Duration| -> f64 { self.run.iter().map(of).sum::<Duration>().as_secs_f64() };
        write!(
            f,
            "{} runs of guest tests: {:.0} s with {} guests at a time, {:.0} guest-seconds, {:.0} of a processor",
            self.run.len(),
            self.wall.as_secs_f64(),
            self.guests,
            seconds(|took| took.wall),
            seconds(|took| took.busy),
        )?;
        let mut kernels: BTreeMap<&str, Vec<(&str, Duration)>> = BTreeMap::new();
        for took in &self.run {
            kernels
                .entry(&took.test)
                .or_default()
                .push((&took.series, took.busy));
        }
        let mut slowest: Vec<(&str, Vec<(&str, Duration)>)> = kernels.into_iter().collect();
        slowest.sort_by_key(|(_, on)| std::cmp::Reverse(on.iter().map(|(_, busy)| *busy).sum::<Duration>()));
        for (test, on) in slowest.iter().take(SLOWEST) {
            writeln!(f)?;
            let all: Duration = on.iter().map(|(_, busy)| *busy).sum();
            write!(f, "{:>8.1} s {test}:", all.as_secs_f64())?;
            for (series, busy) in on {
                write!(f, " {:.1} on {series}", busy.as_secs_f64())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(series: &str, test: &str, seconds: u64) -> Took {
        Took {
            series: series.to_owned(),
            test: test.to_owned(),
            wall: Duration::from_secs(2 * seconds),
            busy: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn the_slowest_over_all_kernels_come_first() {
        let run = vec![
            took("6.1", "a::short", 1),
            took("6.1", "b::long", 3),
            took("7.2", "b::long", 4),
            took("7.2", "c::middle", 5),
        ];
        let pace = Pace {
            wall: Duration::from_secs(9),
            guests: 2,
            run,
        };
        let printed = pace.to_string();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(
            lines[0],
            "4 runs of guest tests: 9 s with 2 guests at a time, 26 guest-seconds, 13 of a processor"
        );
        assert_eq!(lines[1].trim(), "7.0 s b::long: 3.0 on 6.1 4.0 on 7.2");
        assert!(lines[2].contains("c::middle") && lines[3].contains("a::short"));
    }

    #[test]
    fn an_unmeasured_test_is_expected_to_take_as_long_as_on_another_kernel() {
        let mut memory = Memory::default();
        memory
            .0
            .entry("6.1".into())
            .or_default()
            .insert("a::b".into(), 9.0);
        assert!((memory.expected("6.1", "a::b") - 9.0).abs() < 0.1);
        assert!((memory.expected("7.2", "a::b") - 9.0).abs() < 0.1);
        assert!((memory.expected("7.2", "a::c") - UNKNOWN).abs() < 0.1);
    }
}
