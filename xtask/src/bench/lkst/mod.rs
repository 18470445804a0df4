//! `cargo xtask bench lkst`: what recording costs a kernel build, as the authors of the Linux Kernel State Tracer (LKST) reported it: with every event, with a custom mask, ours and
//! the peers' in one run, each round beside builds without a recorder. Here are the rounds and the printed tables.

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode, thread::available_parallelism};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{
    artifact::{self, Profile},
    install,
};

mod build;
mod recorder;
mod sets;
mod tree;

use build::{Taken, Work};
use recorder::{NONE, RECORDERS, RING, Recorder};
use sets::{CLASSES, Set};
use tree::Tree;

/// Measure what recording costs a kernel build, beside perf and tracefs.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds over all rows: 3, with --quick 1, unless said otherwise.
    #[arg(long)]
    rounds: Option<u32>,
    /// What is built, as make knows it.
    #[arg(long = "target", value_name = "TARGET", default_value = "vmlinux")]
    targets: Vec<String>,
    /// Jobs of make; as many as there are processors unless said otherwise.
    #[arg(long)]
    jobs: Option<usize>,
    /// Sets of events.
    #[arg(long, value_delimiter = ',', default_value = "all,flight")]
    sets: Vec<String>,
    /// Recorders.
    #[arg(long, value_delimiter = ',', default_value = "kestrel,tracefs,perf")]
    recorders: Vec<String>,
    /// Less than five minutes: one set, a part of the tree.
    #[arg(long)]
    quick: bool,
    /// Where the kernel's source comes from, instead of this machine's mirror.
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
}

/// The target that `--quick` builds and records.
const QUICK_TARGET: &str = "kernel/";
const QUICK_SET: &str = "flight";

/// One line of the result: builds of all rounds under one recorder with one set.
struct Row {
    recorder: &'static Recorder,
    set: &'static Set,
    events: Vec<String>,
    builds: Vec<Taken>,
    /// Added to the builds without a recorder of the same round: wall time, the build's CPU time, that of the machine, in percent.
    added: Vec<[f64; 3]>,
    /// The error; it is not tried again.
    failed: Option<String>,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::TRACERS)?;
    install::ensure(install::GUESTS)?;
    ensure!(
        Path::new("/sys/kernel/tracing/events").exists(),
        "tracefs is not mounted on /sys/kernel/tracing"
    );
    let programs = tempfile::tempdir().context("make a folder for the programs")?;
    for program in artifact::base(Profile::Release)?.programs {
        fs::copy(&program.path, programs.path().join(&program.name))?;
    }
    let tree = Tree::open(options.mirror.as_deref())?;
    let quick = [QUICK_TARGET.to_owned()];
    let work = Work {
        tree: &tree,
        targets: if options.quick { &quick } else { &options.targets },
        jobs: options
            .jobs
            .unwrap_or_else(|| available_parallelism().map_or(1, usize::from)),
        programs: programs.path(),
    };
    let mut rows = rows(options)?;
    eprintln!("a build to warm up");
    work.measure(&NONE, &[])?;
    let mut bare = Vec::new();
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 });
    for round in 0..rounds.max(1) {
        bare.extend(measure_round(round, &work, &mut rows)?);
    }
    print(&work, &bare, &rows);
    Ok(if rows.iter().any(|row| row.builds.is_empty()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn rows(options: &Options) -> Result<Vec<Row>> {
    let quick = [QUICK_SET.to_owned()];
    let mut rows = Vec::new();
    for set in if options.quick { &quick } else { &options.sets[..] } {
        let set = Set::named(set)?;
        let events = set.events()?;
        for name in &options.recorders {
            let Some(recorder) = RECORDERS.iter().find(|recorder| recorder.name == name) else {
                bail!("no recorder is called {name}: there are kestrel, tracefs and perf");
            };
            rows.push(Row {
                recorder,
                set,
                events: events.clone(),
                builds: Vec::new(),
                added: Vec::new(),
                failed: None,
            });
        }
    }
    Ok(rows)
}

/// One build per row, and one without a recorder before each set and at the end; gives the latter.
fn measure_round(round: u32, work: &Work<'_>, rows: &mut [Row]) -> Result<Vec<Taken>> {
    let mut bare = Vec::new();
    let mut measured = Vec::new();
    let mut last = "";
    for (index, row) in rows.iter_mut().enumerate() {
        if row.failed.is_some() {
            continue;
        }
        if row.set.name != last {
            bare.push(measure_bare(round, work)?);
            last = row.set.name;
        }
        eprintln!(
            "round {round}: {}, {}: {}",
            row.recorder.name,
            row.set.name,
            row.events.len()
        );
        match work.measure(row.recorder, &row.events) {
            Ok(taken) => {
                tell(&taken);
                row.builds.push(taken);
                measured.push(index);
            }
            Err(error) => {
                eprintln!("  {error:#}");
                row.failed = Some(format!("{error:#}"));
            }
        }
    }
    bare.push(measure_bare(round, work)?);
    // Single builds differ by more than a recorder adds: rows are compared with the mean of the round's bare builds.
    let mean = |what: fn(&Taken) -> f64| bare.iter().map(what).sum::<f64>() / bare.len() as f64;
    let against = COLUMNS.map(|(_, what)| mean(what));
    for index in measured {
        let Some(taken) = rows[index].builds.last() else {
            continue;
        };
        let mut added = [0.0; 3];
        for ((added, (_, what)), against) in added.iter_mut().zip(COLUMNS).zip(against) {
            *added = (what(taken) / against - 1.0) * 100.0;
        }
        rows[index].added.push(added);
    }
    Ok(bare)
}

fn measure_bare(round: u32, work: &Work<'_>) -> Result<Taken> {
    eprintln!("round {round}: no recorder");
    let taken = work.measure(&NONE, &[])?;
    tell(&taken);
    Ok(taken)
}

fn tell(taken: &Taken) {
    let events = taken
        .counts
        .as_ref()
        .map_or_else(String::new, |counts| format!(", {} events", counts.total()));
    eprintln!(
        "  {:.2} s, {:.2} s of its processes, {:.2} s of all CPUs; {:.1} s starting and stopping, {:.1} s detaching{events}",
        taken.wall, taken.build_cpu, taken.machine_cpu, taken.startup_and_stop, taken.background
    );
}

/// A measurement of a build, and its name.
type Column = (&'static str, fn(&Taken) -> f64);

/// Everything measured.
const COLUMNS: [Column; 3] = [
    ("wall", |taken| taken.wall),
    ("build's CPU", |taken| taken.build_cpu),
    ("all CPU", |taken| taken.machine_cpu),
];

/// Median, least and greatest.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let last = values.len().saturating_sub(1);
    [f64::midpoint(at(last / 2), at(values.len() / 2)), at(0), at(last)]
}

fn print(work: &Work<'_>, bare: &[Taken], rows: &[Row]) {
    println!(
        "make -j{} {} of a tiny kernel, {RING} rings that keep the newest; median (least to greatest)",
        work.jobs,
        work.targets.join(" ")
    );
    let columns = COLUMNS.map(|(name, what)| {
        let [median, least, greatest] = spread(bare.iter().map(what));
        format!("{name} {median:.2} s ({least:.2} to {greatest:.2})")
    });
    println!("without a recorder: {}", columns.join(", "));
    let names = COLUMNS.map(|(name, _)| format!("{name:>26}"));
    println!(
        "\n{:<16}{}{:>12}{:>9}{:>9}{:>9}{:>8}{:>8}",
        "added, %",
        names.concat(),
        "events",
        "k/s",
        "ns/event",
        "lost",
        "around",
        "behind"
    );
    let mut set = "";
    for row in rows {
        if row.set.name != set {
            set = row.set.name;
            println!("{set}: {} ({} tracepoints)", row.set.about, row.events.len());
        }
        print_row(row, rows, bare);
    }
    for row in rows {
        print_classes(row);
    }
}

fn print_row(row: &Row, rows: &[Row], bare: &[Taken]) {
    let name = row.recorder.name;
    if let Some(failed) = &row.failed {
        println!("  {name:<14}failed: {failed}");
    }
    let Some(build) = row.builds.last() else {
        return;
    };
    let columns: String = (0..COLUMNS.len())
        .map(|column| {
            let [median, least, greatest] = spread(row.added.iter().map(|added| added[column]));
            format!("{:>26}", format!("{median:+.2} ({least:+.2} to {greatest:+.2})"))
        })
        .collect();
    // Who does not count recorded what our recorder did, more or less.
    let ours = rows
        .iter()
        .filter(|other| other.set.name == row.set.name)
        .find_map(total);
    let events = total(row).or(ours).unwrap_or(f64::NAN);
    let machine_cpu = |taken: &Taken| taken.machine_cpu;
    let [against, ..] = spread(bare.iter().map(machine_cpu));
    let [added, ..] = spread(row.added.iter().map(|added| added[2]));
    let each = added / 100.0 * against / events * 1e9;
    let lost = build.counts.as_ref().map_or_else(
        || "?".to_owned(),
        |counts| (counts.lost + counts.missed).to_string(),
    );
    println!(
        "  {name:<14}{columns}{:>12}{:>9.1}{each:>9.0}{lost:>9}{:>7.1}s{:>7.1}s",
        format!("{}{events:.0}", if total(row).is_some() { "" } else { "~" }),
        events / build.wall / 1e3,
        build.startup_and_stop,
        build.background
    );
    for (event, why) in row.recorder.refuses {
        println!("  {:<14}without {event}: {why}", "");
    }
}

/// Events of a row's build: the median of its rounds.
fn total(row: &Row) -> Option<f64> {
    let totals: Vec<f64> = row
        .builds
        .iter()
        .filter_map(|build| Some(build.counts.as_ref()?.total() as f64))
        .collect();
    (!totals.is_empty()).then(|| spread(totals.into_iter())[0])
}

/// Number of the commonest events of a class that are printed.
const COMMONEST: usize = 4;

/// The events of a row's last build by class, where classes are known.
fn print_classes(row: &Row) {
    let Some(counts) = row.builds.last().and_then(|build| build.counts.as_ref()) else {
        return;
    };
    if counts.events.len() < 2 {
        return;
    }
    let all = counts.total() as f64;
    println!("\nevents by class, {}, {}:", row.recorder.name, row.set.name);
    let mut classes: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for (event, count) in &counts.events {
        classes
            .entry(sets::class_of(event))
            .or_default()
            .push((*count, event));
    }
    for class in CLASSES {
        let Some(mut events) = classes.remove(class.name) else {
            continue;
        };
        events.sort_unstable_by(|a, b| b.cmp(a));
        let sum: u64 = events.iter().map(|(count, _)| count).sum();
        let common: Vec<String> = events
            .iter()
            .take(COMMONEST)
            .map(|(count, event)| format!("{event} {:.2}", *count as f64 / all * 100.0))
            .collect();
        println!(
            "  {:<12}{:>7.2} %{sum:>12}  {}",
            class.name,
            sum as f64 / all * 100.0,
            common.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_median_least_greatest() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), [2.0, 1.0, 3.0]);
        assert_eq!(spread([4.0, 1.0].into_iter()), [2.5, 1.0, 4.0]);
        assert!(spread(std::iter::empty())[0].is_nan());
    }
}
