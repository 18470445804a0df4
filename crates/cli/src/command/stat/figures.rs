//! Counts as figures: scaled where counters took turns, the mean of several runs, and what perf derives from them (rates, utilisation, ratios).

use kestrel::kernel::perf::Software;
use kestrel::stat::{Amount, Count, Event, Meaning, Part};
use std::collections::HashMap;

/// A row of the figures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure<'a> {
    /// The event that was counted.
    pub(super) event: &'a Event,
    /// Which part of it.
    pub(super) part: &'a Part,
    /// The counted event.
    pub(super) number: Number,
    /// Nanoseconds for which it was counted, all places together.
    pub(super) running: u64,
    /// Of a hundred nanoseconds so many.
    pub(super) percent: f64,
    /// The derived figure.
    pub(super) derived: Option<Derived>,
    /// Of several runs: the standard deviation of the mean, in percent of it.
    pub(super) noise: Option<f64>,
}

/// A counted number, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// This machine cannot count it.
    NotSupported,
    /// The event never had a counter.
    NotCounted,
    /// The count itself, without scaling.
    Exact(u64),
    /// Scaled, or a mean.
    About(f64),
}

/// A derived figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Derived {
    pub(super) value: f64,
    pub(super) unit: String,
}

/// A run, or an interval of one.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) counts: Vec<Count>,
    /// Length of the run or interval, ns.
    pub(super) elapsed: u64,
}

/// The key of a row.
type Key<'a> = (usize, &'a Part);

impl Number {
    fn value(self) -> Option<f64> {
        match self {
            Self::Exact(value) => Some(value as f64),
            Self::About(value) => Some(value),
            Self::NotSupported | Self::NotCounted => None,
        }
    }
}

/// The rows of a run, or of several.
pub(super) fn figures<'a>(events: &'a [Event], runs: &'a [Run]) -> Vec<Figure<'a>> {
    // A map has no order: events that sort alike keep the order in which they were counted.
    let mut keys: Vec<Key<'_>> = Vec::new();
    let mut amounts: HashMap<Key<'_>, Vec<Amount>> = HashMap::new();
    for count in runs.iter().flat_map(|run| &run.counts) {
        let key = (count.event, &count.part);
        let known = amounts.entry(key).or_default();
        if known.is_empty() {
            keys.push(key);
        }
        known.push(count.amount);
    }
    let numbers: HashMap<Key<'_>, Number> = keys
        .iter()
        .map(|key| (*key, number(&amounts[key], runs.len())))
        .collect();
    sort(&mut keys, &numbers);
    let elapsed = mean(runs.iter().map(|run| run.elapsed as f64), runs.len());
    let derive = Derivation {
        events,
        numbers: &numbers,
        elapsed,
    };
    let row = |key: &Key<'a>| {
        let amounts = &amounts[key];
        let (enabled, running) = times(amounts);
        let event = &events[key.0];
        Figure {
            event,
            part: key.1,
            number: numbers[key],
            running: running / runs.len().max(1) as u64,
            percent: match enabled {
                // One that was never enabled shared its counter with no other.
                0 => 100.0,
                enabled => running as f64 * 100.0 / enabled as f64,
            },
            derived: derive.of(*key),
            noise: (runs.len() > 1).then(|| noise(amounts, runs.len())),
        }
    };
    keys.iter().map(row).collect()
}

/// Rows in the order of their events; those of threads and values with the greatest first.
fn sort(keys: &mut [Key<'_>], numbers: &HashMap<Key<'_>, Number>) {
    let rank = |(event, part): &Key<'_>| match part {
        Part::All | Part::Cpu(_) => 0.0,
        Part::Thread { .. } | Part::By(_) => -numbers[&(*event, *part)].value().unwrap_or(-1.0),
    };
    keys.sort_by(|a, b| {
        let order = a.0.cmp(&b.0).then_with(|| rank(a).total_cmp(&rank(b)));
        order.then_with(|| a.1.cmp(b.1))
    });
}

fn times(amounts: &[Amount]) -> (u64, u64) {
    amounts
        .iter()
        .fold((0, 0), |(enabled, running), amount| match amount {
            Amount::Counted(reading) => (enabled + reading.enabled, running + reading.running),
            Amount::NotSupported => (enabled, running),
        })
}

/// An amount as one number, scaled where it was counted for a part of the time.
fn scaled(amount: &Amount) -> Number {
    match amount {
        Amount::NotSupported => Number::NotSupported,
        // A task that did not run has no time in which anything could have been counted: then there was nothing.
        Amount::Counted(it) if it.running == it.enabled => Number::Exact(it.value),
        Amount::Counted(it) if it.running == 0 => Number::NotCounted,
        Amount::Counted(it) => Number::About(it.value as f64 * (it.enabled as f64 / it.running as f64)),
    }
}

/// The number of a row: of one run as it is, of several their mean. A part that did not come in a run was there no time.
fn number(amounts: &[Amount], runs: usize) -> Number {
    let numbers: Vec<Number> = amounts.iter().map(scaled).collect();
    match (runs, numbers.as_slice()) {
        (1, [only]) => *only,
        _ => {
            let values: Vec<f64> = numbers.iter().filter_map(|number| number.value()).collect();
            match (values.is_empty(), numbers.first()) {
                (true, Some(first)) => *first,
                _ => Number::About(mean(values.into_iter(), runs)),
            }
        }
    }
}

/// The mean of values, and of zeroes where there are fewer than `runs`.
fn mean(values: impl Iterator<Item = f64>, runs: usize) -> f64 {
    values.sum::<f64>() / runs.max(1) as f64
}

/// The standard deviation of the mean of values, and of zeroes where there are fewer than `runs`.
pub(super) fn deviation(values: &[f64], runs: usize) -> f64 {
    if runs < 2 {
        return 0.0;
    }
    let mean = mean(values.iter().copied(), runs);
    let absent = runs.saturating_sub(values.len()) as f64 * mean * mean;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    ((squares + absent) / (runs - 1) as f64 / runs as f64).sqrt()
}

fn noise(amounts: &[Amount], runs: usize) -> f64 {
    let values: Vec<f64> = amounts
        .iter()
        .filter_map(|amount| scaled(amount).value())
        .collect();
    let mean = mean(values.iter().copied(), runs);
    match mean == 0.0 {
        true => 0.0,
        false => deviation(&values, runs) * 100.0 / mean,
    }
}

/// Inputs from which derived figures are computed.
struct Derivation<'a, 'n> {
    events: &'a [Event],
    numbers: &'n HashMap<Key<'a>, Number>,
    elapsed: f64,
}

/// `enum perf_hw_id`, as far as anything is derived from them.
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const CACHE_REFERENCES: u64 = 2;
const CACHE_MISSES: u64 = 3;
const BRANCHES: u64 = 4;
const BRANCH_MISSES: u64 = 5;
const FRONTEND_STALLS: u64 = 7;
const BACKEND_STALLS: u64 = 8;

/// A table: a counter, the one that it is a part of, and what that share is called.
const SHARES: &[(u64, u64, &str)] = &[
    (CACHE_MISSES, CACHE_REFERENCES, "of all cache refs"),
    (BRANCH_MISSES, BRANCHES, "of all branches"),
    (FRONTEND_STALLS, CYCLES, "frontend cycles idle"),
    (BACKEND_STALLS, CYCLES, "backend cycles idle"),
];

impl Derivation<'_, '_> {
    fn of(&self, key: Key<'_>) -> Option<Derived> {
        let value = self.number(key)?;
        let meaning = self.events[key.0].counter.as_ref().map(|named| named.meaning);
        let derived = |value: f64, unit: &str| {
            Some(Derived {
                value,
                unit: unit.to_owned(),
            })
        };
        if is_clock(meaning) {
            return (self.elapsed > 0.0).then(|| derived(value / self.elapsed, "CPUs utilized"))?;
        }
        if meaning == Some(Meaning::Hardware(INSTRUCTIONS))
            && let Some(cycles) = self.beside(key, Meaning::Hardware(CYCLES))
        {
            return derived(value / cycles, "insn per cycle");
        }
        if let Some((percent, unit)) = self.share(key, meaning, value) {
            return derived(percent, &unit);
        }
        let clock = self.clock(key)?;
        if meaning == Some(Meaning::Hardware(CYCLES)) {
            return derived(value / clock, "GHz");
        }
        let (rate, unit) = rate(value * 1e9 / clock);
        derived(rate, unit)
    }

    /// A miss in percent of what could have been one.
    fn share(&self, key: Key<'_>, meaning: Option<Meaning>, value: f64) -> Option<(f64, String)> {
        let (whole, unit) = match meaning? {
            Meaning::Hardware(config) => {
                let (_, whole, name) = SHARES.iter().find(|(part, ..)| *part == config)?;
                (Meaning::Hardware(*whole), format!("% {name}"))
            }
            Meaning::Cache {
                cache,
                misses: true,
                operation,
            } => {
                let whole = Meaning::Cache {
                    cache,
                    misses: false,
                    operation,
                };
                (whole, format!("% of all {cache} accesses"))
            }
            _ => return None,
        };
        Some((value * 100.0 / self.beside(key, whole)?, unit))
    }

    fn number(&self, key: Key<'_>) -> Option<f64> {
        self.numbers.get(&key)?.value()
    }

    /// Count of another event for the same part, where there is one and it is not 0; the same levels come first.
    fn beside(&self, (event, part): Key<'_>, meaning: Meaning) -> Option<f64> {
        let levels = self.events[event].counter.as_ref().map(|named| named.levels);
        let mut found = None;
        for (place, other) in self.events.iter().enumerate() {
            let Some(named) = other.counter.as_ref().filter(|named| named.meaning == meaning) else {
                continue;
            };
            let value = self.number((place, part)).filter(|value| *value > 0.0);
            if Some(named.levels) == levels && value.is_some() {
                return value;
            }
            found = found.or(value);
        }
        found
    }

    /// Nanoseconds of tasks or CPUs in which it was counted.
    fn clock(&self, key: Key<'_>) -> Option<f64> {
        let of = |clock: Software| self.beside(key, Meaning::Software(clock as u64));
        of(Software::TaskClock).or_else(|| of(Software::CpuClock))
    }
}

fn is_clock(meaning: Option<Meaning>) -> bool {
    [Software::TaskClock, Software::CpuClock]
        .iter()
        .any(|clock| meaning == Some(Meaning::Software(*clock as u64)))
}

/// A rate per second in a unit that leaves few digits.
fn rate(per_second: f64) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 3] = [(1e9, "G/sec"), (1e6, "M/sec"), (1e3, "K/sec")];
    let unit = UNITS.iter().find(|(scale, _)| per_second >= *scale);
    unit.map_or((per_second, "/sec"), |(scale, name)| (per_second / scale, name))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use kestrel::catalog::counter::counted;
    use kestrel::stat::Reading;

    pub(in super::super) fn events(names: &[&str]) -> Vec<Event> {
        let event = |name: &&str| Event {
            name: (*name).to_owned(),
            counter: counted::find(name).unwrap(),
        };
        names.iter().map(event).collect()
    }

    pub(in super::super) fn run(values: &[u64]) -> Run {
        let count = |(event, value): (usize, &u64)| Count {
            event,
            part: Part::All,
            amount: Amount::Counted(Reading {
                value: *value,
                enabled: 1000,
                running: 1000,
            }),
        };
        Run {
            counts: values.iter().enumerate().map(count).collect(),
            elapsed: 2_000_000_000,
        }
    }

    fn derived(names: &[&str], values: &[u64]) -> Vec<String> {
        let (events, runs) = (events(names), [run(values)]);
        let figures = figures(&events, &runs);
        let text = |figure: &Figure<'_>| {
            let derived = figure.derived.as_ref();
            derived.map_or(String::new(), |it| format!("{:.3} {}", it.value, it.unit))
        };
        figures.iter().map(text).collect()
    }

    #[test]
    fn figures_are_derived_as_perf_does() {
        assert_eq!(
            derived(
                &[
                    "task-clock",
                    "cs",
                    "cycles",
                    "instructions",
                    "branches",
                    "branch-misses",
                    "sched:sched_switch"
                ],
                &[
                    1_000_000_000,
                    20,
                    3_000_000_000,
                    6_000_000_000,
                    1_000_000,
                    50_000,
                    2500
                ]
            ),
            [
                "0.500 CPUs utilized",
                "20.000 /sec",
                "3.000 GHz",
                "2.000 insn per cycle",
                "1.000 M/sec",
                "5.000 % of all branches",
                "2.500 K/sec"
            ]
        );
        assert_eq!(
            derived(&["LLC-loads", "LLC-load-misses", "cs"], &[200, 20, 1]),
            ["", "10.000 % of all LLC accesses", ""]
        );
    }

    #[test]
    fn counters_that_took_turns_are_scaled_and_say_so() {
        let events = events(&["cycles"]);
        let mut one = run(&[100]);
        one.counts[0].amount = Amount::Counted(Reading {
            value: 100,
            enabled: 1000,
            running: 250,
        });
        let runs = [one];
        let figures = figures(&events, &runs);
        assert_eq!(figures[0].number, Number::About(400.0));
        assert_eq!(figures[0].percent, 25.0);
    }

    #[test]
    fn several_runs_have_a_mean_and_its_deviation() {
        let events = events(&["sched:sched_switch"]);
        let runs = [run(&[10]), run(&[12]), run(&[14])];
        let figures = figures(&events, &runs);
        assert_eq!(figures[0].number, Number::About(12.0));
        // The deviation of 10, 12 and 14 is 2; that of their mean 2/√3.
        let noise = figures[0].noise.unwrap();
        assert!((noise - 100.0 * 2.0 / 3f64.sqrt() / 12.0).abs() < 1e-9, "{noise}");
        assert!(
            (deviation(&[6.0], 2) - 3.0).abs() < 1e-9,
            "a run without it counts as 0"
        );
    }

    #[test]
    fn uncounted_events_have_a_reason() {
        let events = events(&["cycles", "cs"]);
        let mut one = run(&[0, 0]);
        one.counts[0].amount = Amount::NotSupported;
        one.counts[1].amount = Amount::Counted(Reading {
            enabled: 5,
            ..Reading::default()
        });
        let runs = [one];
        let numbers: Vec<Number> = figures(&events, &runs).iter().map(|it| it.number).collect();
        assert_eq!(numbers, [Number::NotSupported, Number::NotCounted]);
    }
}
