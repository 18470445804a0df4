//! `cargo xtask bench instructions`: exact costs, in instructions, measured in a guest whose clock counts them, and
//! compared with the file of what they were. Caches, interrupts between CPUs and locks cost nothing here: for those,
//! measure time.

use std::{
    collections::BTreeMap,
    fs,
    num::NonZero,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use self::row::{Limit, Row};
use crate::{
    artifact::{self, Base},
    guest::{GuestSpec, GuestTemplate},
    install,
    tally::Tally,
};

mod getppid;
mod kestrel_kprobe;
mod kestrel_mark;
mod kestrel_table;
mod kestrel_tracepoint;
mod null_write;
mod number;
mod own_event;
mod row;
mod tracefs_kprobe;
mod tracefs_tracepoint;

/// The kernel series in which costs are counted.
const SERIES: &str = "6.12";

/// The largest difference to the file that passes.
const TOLERANCE: f64 = 0.01;

/// Everything measured, in the order in which it is printed.
const ROWS: &[Row] = &[
    getppid::ROW,
    tracefs_kprobe::ROW,
    kestrel_kprobe::ROW,
    tracefs_tracepoint::ROW,
    kestrel_tracepoint::ROW,
    kestrel_table::ROW,
    null_write::ROW,
    kestrel_mark::ROW,
    number::ROW,
    own_event::ROW,
];

/// Count instructions per event, exactly.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write what was measured to the file that later runs are compared with.
    #[arg(long)]
    bless: bool,
    /// Kernel series; what is measured on another one than the file's is shown and not compared.
    #[arg(long, default_value = SERIES)]
    kernel: String,
}

/// Costs measured, or read from the file.
#[derive(Debug, PartialEq, Eq)]
struct Costs {
    release: String,
    rows: BTreeMap<String, u64>,
}

/// Measures, prints, compares.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::GUESTS)?;
    let costs = measure(&artifact::counted()?, &options.kernel)?;
    costs.print();
    if options.kernel != SERIES {
        return Ok(ExitCode::SUCCESS);
    }
    if options.bless {
        fs::write(file(), costs.text()).with_context(|| format!("write {}", file().display()))?;
        println!("written to {}", file().display());
        return Ok(ExitCode::SUCCESS);
    }
    let tally = costs.judge()?;
    println!("{tally}");
    Ok(if tally.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The comparison as a part of `cargo xtask test`.
pub(crate) fn check() -> Result<Tally> {
    let costs = measure(&artifact::counted()?, SERIES)?;
    costs.print();
    costs.judge()
}

fn file() -> PathBuf {
    crate::workspace::root().join("tests/vm/instructions.tsv")
}

/// Guests at a time.
const MAX_GUESTS: usize = 4;

/// Each row in a guest of its own: what one leaves behind must not be counted in the next. Their clocks count instructions and not time, so that as many run at once as
/// there are processors, [`MAX_GUESTS`] at most.
fn measure(base: &Base, series: &str) -> Result<Costs> {
    let stable = GuestTemplate::prepare(&GuestSpec::counted(series), &base.init)?;
    let next = AtomicUsize::new(0);
    let stop = |_: &anyhow::Error| next.store(ROWS.len(), Ordering::Relaxed);
    let worker = || -> Result<Vec<(String, u64)>> {
        let mut costs = Vec::new();
        while let Some(row) = ROWS.get(next.fetch_add(1, Ordering::Relaxed)) {
            costs.push((row.name.to_owned(), row.cost(base, &stable).inspect_err(stop)?));
        }
        Ok(costs)
    };
    let guests = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(MAX_GUESTS);
    let measured: Vec<Result<Vec<(String, u64)>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..guests.min(ROWS.len())).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<Vec<_>>>| {
            let measured = worker.join();
            measured.unwrap_or_else(|_| Err(anyhow!("a thread that ran guests panicked")))
        };
        workers.into_iter().map(join).collect()
    });
    let mut rows = BTreeMap::new();
    for costs in measured {
        rows.extend(costs?);
    }
    Ok(Costs {
        release: stable.release().to_owned(),
        rows,
    })
}

impl Costs {
    fn stored() -> Result<Self> {
        let text = fs::read_to_string(file()).with_context(|| format!("read {}", file().display()))?;
        Self::parse(&text).with_context(|| format!("{}: make it anew with --bless", file().display()))
    }

    /// A comment line with the kernel's release, then name, tab, instructions.
    fn parse(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('\n')?;
        let row = |line: &str| {
            let (name, cost) = line.split_once('\t')?;
            Some((name.to_owned(), cost.trim().parse().ok()?))
        };
        let rows: Option<_> = rest.lines().map(row).collect();
        Some(Self {
            release: first.strip_prefix("# instructions per call on ")?.to_owned(),
            rows: rows?,
        })
    }

    fn text(&self) -> String {
        let rows: String = self
            .rows
            .iter()
            .map(|(name, cost)| format!("{name}\t{cost}\n"))
            .collect();
        format!("# instructions per call on {}\n{rows}", self.release)
    }

    fn print(&self) {
        println!("instructions per call, kernel {}", self.release);
        for row in ROWS {
            let cost = self.rows.get(row.name).copied().unwrap_or_default();
            let event = self
                .event(row)
                .map(|event| format!("+{event}"))
                .unwrap_or_default();
            let ratio = match row.limit {
                Some(Limit::Ratio(at_most, peer)) => self
                    .ratio(row, peer)
                    .map(|ratio| format!(": {ratio:.2} of {peer}, promised {at_most}")),
                Some(Limit::Instructions(at_most)) => Some(format!(": promised {at_most}")),
                None => None,
            };
            println!(
                "{:<20} {cost:>8} {event:>8}  {}{}",
                row.name,
                row.about,
                ratio.unwrap_or_default()
            );
        }
    }

    /// Compares with the file and prints the differences.
    fn judge(&self) -> Result<Tally> {
        let (tally, mut sentences) = self.compare(&Self::stored()?);
        let broken = self.broken_promises();
        let limits = ROWS.iter().filter(|row| row.limit.is_some()).count();
        let kept = Tally {
            passed: (limits - broken.len()) as u64,
            failed: broken.len() as u64,
            ..Tally::default()
        };
        sentences.extend(broken);
        sentences.iter().for_each(|sentence| println!("{sentence}"));
        Ok(tally + kept)
    }

    /// Cost of an event in a row: its cost without that of the bare call.
    fn event(&self, row: &Row) -> Option<u64> {
        self.rows
            .get(row.name)?
            .checked_sub(*self.rows.get(row.baseline?)?)
    }

    /// How an event's cost relates to the one that it is promised against.
    fn ratio(&self, row: &Row, peer: &str) -> Option<f64> {
        let peer = ROWS.iter().find(|other| other.name == peer)?;
        Some(self.event(row)? as f64 / self.event(peer)? as f64)
    }

    /// A sentence for each promise that these costs do not keep.
    fn broken_promises(&self) -> Vec<String> {
        let broken = |row: &Row| match row.limit? {
            Limit::Ratio(at_most, peer) => {
                let ratio = self.ratio(row, peer).unwrap_or(f64::INFINITY);
                let sentence = format!("bench {}: {ratio:.3} of {peer}, promised {at_most}", row.name);
                (ratio > at_most).then_some(sentence)
            }
            Limit::Instructions(at_most) => {
                let cost = |name: &str| self.rows.get(name).copied();
                let both = cost(row.name).zip(row.baseline.and_then(cost));
                let kept = both.is_some_and(|(with, without)| with <= without + at_most);
                let sentence = format!(
                    "bench {}: {both:?} instructions, promised {at_most} more",
                    row.name
                );
                (!kept).then_some(sentence)
            }
        };
        ROWS.iter().filter_map(broken).collect()
    }

    /// Whether all that the kernel does by itself costs the same as there: a point release rarely changes it.
    fn is_alike(&self, stored: &Self) -> bool {
        let series = |release: &str| release.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
        let mut kernels = ROWS.iter().filter(|row| !row.is_ours());
        series(&self.release) == series(&stored.release)
            && kernels.all(|row| {
                self.rows
                    .get(row.name)
                    .is_some_and(|cost| stored.is_close(row.name, *cost))
            })
    }

    fn is_close(&self, name: &str, cost: u64) -> bool {
        let close = |old: &u64| old.abs_diff(cost) as f64 <= *old as f64 * TOLERANCE;
        self.rows.get(name).is_some_and(close)
    }

    /// One verdict per row. A kernel that costs something else by itself than the file's is not judged, and that is said.
    fn compare(&self, stored: &Self) -> (Tally, Vec<String>) {
        if stored.release != self.release && !self.is_alike(stored) {
            let sentences = format!(
                "skipped: the stored costs are of kernel {}, these of {}, which costs something else by itself: look at them, then --bless",
                stored.release, self.release
            );
            return (
                Tally {
                    skipped: self.rows.len() as u64,
                    ..Tally::default()
                },
                vec![sentences],
            );
        }
        let (mut tally, mut sentences) = (Tally::default(), Vec::new());
        for (name, cost) in &self.rows {
            let holds = stored.is_close(name, *cost);
            if !holds {
                sentences.push(format!(
                    "bench {name}: {cost} instructions, stored {:?}",
                    stored.rows.get(name)
                ));
            }
            tally = tally + Tally::one(holds);
        }
        (tally, sentences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(release: &str, rows: &[(&str, u64)]) -> Costs {
        let rows = rows
            .iter()
            .map(|(name, cost)| ((*name).to_owned(), *cost))
            .collect();
        Costs {
            release: release.to_owned(),
            rows,
        }
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let costs = costs("6.12.1-x", &[("a", 1), ("b", 200)]);
        assert_eq!(Costs::parse(&costs.text()), Some(costs));
        assert_eq!(Costs::parse("a\t1\n"), None);
    }

    #[test]
    fn one_per_cent_passes_and_more_does_not() {
        let old = costs("k", &[("a", 1000), ("b", 1000), ("c", 1000)]);
        let new = costs("k", &[("a", 1010), ("b", 1011), ("c", 989), ("unknown", 1)]);
        let (tally, sentences) = new.compare(&old);
        assert_eq!(
            (tally.passed, tally.failed, tally.skipped, sentences.len()),
            (1, 3, 0, 3)
        );
        let (tally, sentences) = costs("other", &[("a", 1)]).compare(&old);
        assert_eq!(
            (tally.passed, tally.failed, tally.skipped, sentences.len()),
            (0, 0, 1, 1)
        );
    }

    #[test]
    fn a_point_release_that_costs_the_same_by_itself_is_judged() {
        let rows = |bare, ours| {
            let kernels = ROWS
                .iter()
                .filter(|row| !row.is_ours())
                .map(|row| (row.name, bare));
            kernels.chain([("kestrel-kprobe", ours)]).collect::<Vec<_>>()
        };
        let old = costs("6.12.117+deb13", &rows(1000, 2000));
        let all = rows(1000, 2000).len() as u64;
        for (release, bare, ours, judged) in [
            ("6.12.118+deb13", 1005, 2100, (all - 1, 1, 0)),
            ("6.12.118+deb13", 1020, 2100, (0, 0, all)),
            ("6.18.117+deb13", 1000, 2000, (0, 0, all)),
        ] {
            let (tally, _) = costs(release, &rows(bare, ours)).compare(&old);
            assert_eq!((tally.passed, tally.failed, tally.skipped), judged, "{release}");
        }
    }

    #[test]
    fn every_row_is_read_against_one_that_is_there() {
        let there = |name: &str| ROWS.iter().any(|row| row.name == name);
        for row in ROWS {
            assert!(row.baseline.is_none_or(there), "{}", row.name);
            let is_there = match row.limit {
                Some(Limit::Ratio(_, peer)) => there(peer),
                Some(Limit::Instructions(_)) => row.baseline.is_some(),
                None => true,
            };
            assert!(is_there, "{}", row.name);
        }
    }

    #[test]
    fn a_promise_is_about_the_event_without_the_call() {
        let rows = |ours, event| {
            [
                ("getppid", 300),
                ("tracefs-kprobe", 1300),
                ("kestrel-kprobe", ours),
                ("number", 700),
                ("own-event-off", event),
            ]
        };
        assert!(costs("k", &rows(949, 812)).broken_promises().is_empty());
        assert_eq!(costs("k", &rows(951, 812)).broken_promises().len(), 1);
        assert_eq!(costs("k", &rows(949, 813)).broken_promises().len(), 1);
        assert_eq!(costs("k", &[]).broken_promises().len(), 2);
    }
}
