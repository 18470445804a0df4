//! `cargo xtask bench overhead`: nanoseconds that recording adds to a system call on this machine, ours and the peers'
//! side by side in one run. One process, pinned; rounds alternate between the rows and the best of each counts, because
//! noise only ever adds.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    artifact::{self, Profile},
    install,
};

/// The load of every row: 400 batches of 1,000 calls, the best batch counts: one of a fifth of a millisecond is often left alone also on a machine
/// that is shared. The pause between two is long enough to empty a ring: what is lost is cheaper than what is recorded.
const LOAD: &str = "taskset -c 1 cost getppid 400 1000 4";
/// The calls of it.
const CALLS: u64 = 400_000;

/// Ring of every recorder, per CPU.
const RING: &str = "4M";

/// One way to record raw_syscalls:sys_enter with all its fields, for one process.
struct Row {
    name: &'static str,
    /// A shell line whose last word on standard output is the cost of a call; LOAD, RING, DIR and [`WORDS`] are replaced.
    line: &'static str,
    /// Limits: at most this much of what the row named adds.
    limits: &'static [(f64, &'static str)],
}

/// The row that the others are read against.
const BARE: &str = "bare";

/// The row of perf as it is typed.
const PERF: &str = "perf record -p";

/// The row of a program that reads the clock and keeps nothing.
const FLOOR: &str = "kestrel, clock only";

/// System calls as people read them: ours, and the peers' views, which write their lines meanwhile.
const SYSCALLS: &str = "kestrel --syscalls";
const PERF_TRACE: &str = "perf trace";
const STRACE: &str = "strace -f";

/// Macros of the rows' lines. RECORD … RECORDED records the shell, which execs the load once ATTACHED; the recorder runs on for seconds. perf does not
/// report when it is attached: BEGUN waits for the header of its file, and its count of samples is checked afterwards.
const WORDS: [(&str, &str); 4] = [
    ("RECORDED", "-p $$ --duration 6 2> DIR/stderr &"),
    ("RECORD", "kestrel record -v --buffer-size RING -o DIR/trace"),
    (
        "ATTACHED",
        "until grep -q ^attached DIR/stderr || ! kill -0 $!; do sleep 0.1; done",
    ),
    (
        "BEGUN",
        "until [ -s DIR/perf.data ] || ! kill -0 $!; do sleep 0.1; done; sleep 0.5",
    ),
];

/// From exec to attached, ms: measured, and at most.
const ATTACH: &str = "kestrel record -v -e sched:sched_switch -o DIR/a -- true";
const ATTACH_AT_MOST: f64 = 20.0;

/// Everything measured, in the order in which it is printed.
const ROWS: &[Row] = &[
    Row {
        name: BARE,
        line: "LOAD",
        limits: &[],
    },
    Row {
        name: "tracefs ring",
        line: "ring=/sys/kernel/tracing/instances/kestrel-bench && mkdir $ring \
               && trap 'echo 0 > $ring/events/enable; rmdir $ring' EXIT \
               && echo 4096 > $ring/buffer_size_kb && cd $ring/events/raw_syscalls/sys_enter \
               && sh -c 'echo \"common_pid == $$\" > filter && echo 1 > enable && exec LOAD'",
        limits: &[],
    },
    Row {
        name: "tracefs, mono clock",
        line: "ring=/sys/kernel/tracing/instances/kestrel-bench && mkdir $ring \
               && trap 'echo 0 > $ring/events/enable; rmdir $ring' EXIT && echo mono > $ring/trace_clock \
               && echo 4096 > $ring/buffer_size_kb && cd $ring/events/raw_syscalls/sys_enter \
               && sh -c 'echo \"common_pid == $$\" > filter && echo 1 > enable && exec LOAD'",
        limits: &[],
    },
    // A stream is read while it is written: so is this ring, by the reader that trace-cmd has.
    Row {
        name: "tracefs, mono, read",
        line: "ring=/sys/kernel/tracing/instances/kestrel-bench && mkdir $ring \
               && trap 'echo 0 > $ring/events/enable; kill $!; rmdir $ring' EXIT && echo mono > $ring/trace_clock \
               && echo 4096 > $ring/buffer_size_kb && cd $ring/events/raw_syscalls/sys_enter \
               && { cat $ring/per_cpu/cpu1/trace_pipe_raw > DIR/raw & } \
               && sh -c 'echo \"common_pid == $$\" > filter && echo 1 > enable && exec LOAD'",
        limits: &[],
    },
    // The command as it is typed, with its default ring.
    Row {
        name: PERF,
        line: "sh -c 'perf record -e raw_syscalls:sys_enter -o DIR/perf.data -p $$ 2> DIR/stderr & BEGUN; exec LOAD'",
        limits: &[],
    },
    Row {
        name: "perf, same ring",
        line: "perf record -m RING -e raw_syscalls:sys_enter -o DIR/perf.data -- LOAD",
        limits: &[],
    },
    Row {
        name: "kestrel filtered",
        line: "sh -c 'RECORD --overwrite -e \"raw_syscalls:sys_enter /pid == 1/\" RECORDED ATTACHED; exec LOAD'",
        limits: &[],
    },
    // Lower bound of recorders in BPF that give times: a program that reads the clock.
    Row {
        name: FLOOR,
        line: "sh -c 'RECORD --overwrite -e \"raw_syscalls:sys_enter /nsecs == 1/\" RECORDED ATTACHED; exec LOAD'",
        limits: &[],
    },
    Row {
        name: "kestrel overwrite",
        line: "sh -c 'RECORD --overwrite -e raw_syscalls:sys_enter RECORDED ATTACHED; exec LOAD'",
        limits: &[(0.60, "tracefs ring"), (0.20, PERF)],
    },
    Row {
        name: "kestrel stream",
        line: "sh -c 'RECORD -e raw_syscalls:sys_enter RECORDED ATTACHED; exec LOAD'",
        limits: &[(0.60, "tracefs ring"), (0.20, PERF)],
    },
    // Calls as people read them: entry and return, with all arguments.
    Row {
        name: SYSCALLS,
        line: "sh -c 'RECORD --syscalls RECORDED ATTACHED; exec LOAD'",
        limits: &[],
    },
    Row {
        name: PERF_TRACE,
        line: "perf trace -o DIR/lines LOAD",
        limits: &[],
    },
    Row {
        name: STRACE,
        line: "strace -f -o DIR/lines LOAD",
        limits: &[],
    },
];

/// Further comparisons: a row, a peer, what they have in common.
const COMPARISONS: [(&str, &str, &str); 7] = [
    (
        FLOOR,
        "tracefs ring",
        "the floor of BPF recorders with time stamps",
    ),
    (FLOOR, PERF, "likewise"),
    ("kestrel overwrite", "perf, same ring", "a ring of the same size"),
    (
        "kestrel overwrite",
        "tracefs, mono clock",
        "the same clock on both sides",
    ),
    (
        "kestrel stream",
        "tracefs, mono, read",
        "the same clock, and both are read meanwhile",
    ),
    (SYSCALLS, PERF_TRACE, "each call with its return"),
    (SYSCALLS, STRACE, "each call with its return"),
];

/// Measure nanoseconds per recorded event, beside tracefs and perf.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds over all rows.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// Measures, prints the table, judges the limits.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::TRACERS)?;
    ensure!(
        Path::new("/sys/kernel/tracing/events").exists(),
        "tracefs is not mounted on /sys/kernel/tracing"
    );
    let programs = tempfile::tempdir().context("make a folder for the programs")?;
    for program in artifact::base(Profile::Release)?.programs {
        fs::copy(&program.path, programs.path().join(&program.name))?;
    }
    let mut best = vec![u64::MAX; ROWS.len()];
    let mut lost = vec![None; ROWS.len()];
    let mut attached = f64::INFINITY;
    for round in 0..options.rounds.max(1) {
        for ((row, best), lost) in ROWS.iter().zip(&mut best).zip(&mut lost) {
            let measured = row
                .measure(programs.path())
                .with_context(|| format!("round {round}, {}", row.name))?;
            *best = measured.cost.min(*best);
            *lost = measured.lost.max(*lost);
        }
        attached = attached.min(time_to_attach(programs.path())?);
    }
    let costs: Vec<(&Row, u64)> = ROWS.iter().zip(best).collect();
    print(&costs, &lost);
    for (row, peer, remark) in COMPARISONS {
        let ratio = added(row, &costs) / added(peer, &costs);
        println!("{row}: {ratio:.2} of {peer}, {remark}");
    }
    println!("kestrel: {attached:.1} ms from exec to attached (promised {ATTACH_AT_MOST})");
    Ok(
        if attached <= ATTACH_AT_MOST && ROWS.iter().all(|row| is_within_limits(row, &costs)) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
    )
}

/// One measurement of a row.
struct Measured {
    /// Nanoseconds per call.
    cost: u64,
    /// Events lost, where the recorder says so.
    lost: Option<u64>,
}

impl Row {
    /// One round with this recorder at work.
    fn measure(&self, programs: &Path) -> Result<Measured> {
        let (out, err) = run_line(self.line, programs)?;
        let cost = out.split_whitespace().rev().find_map(|word| word.parse().ok());
        // A recorder that came late or left early costs nothing.
        if self.line.contains("RECORD") && !self.limits.is_empty() {
            let seen = recorded(&err).unwrap_or(0);
            ensure!(
                seen >= CALLS,
                "{}: only {seen} of {CALLS} calls were recorded: {err}",
                self.name
            );
        }
        let lost = if self.line.contains("perf record") {
            let seen = samples(&err).unwrap_or(0);
            ensure!(
                seen >= CALLS / 2,
                "{}: only {seen} of {CALLS} calls were recorded: {err}",
                self.name
            );
            Some(CALLS.saturating_sub(seen))
        } else {
            number_after(&err, "lost ")
        };
        Ok(Measured {
            cost: cost.with_context(|| format!("{}: a number in {out:?}", self.line))?,
            lost,
        })
    }
}

/// Runs a shell line that uses our programs; gives its standard output and error.
fn run_line(line: &str, programs: &Path) -> Result<(String, String)> {
    let scratch = tempfile::tempdir().context("make a folder for traces")?;
    let folder = scratch.path().display().to_string();
    let line = WORDS
        .iter()
        .fold(line.to_owned(), |line, (word, text)| line.replace(word, text))
        .replace("LOAD", LOAD)
        .replace("RING", RING)
        .replace("DIR", &folder);
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("PATH", format!("{}:{path}", programs.display()))
        .stdin(Stdio::null())
        .output()
        .context("run sh")?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut err = String::from_utf8_lossy(&output.stderr).into_owned();
    err.push_str(&fs::read_to_string(scratch.path().join("stderr")).unwrap_or_default());
    ensure!(output.status.success(), "{line}: {}: {err}", output.status);
    Ok((out, err))
}

/// The number behind a word, its thousands set apart by commas.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let digits: String = rest
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Samples that perf says it has.
fn samples(stderr: &str) -> Option<u64> {
    let (before, _) = stderr.rsplit_once(" samples)")?;
    before.rsplit_once('(')?.1.parse().ok()
}

/// Events that our recorder says it recorded, those overwritten since included.
fn recorded(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find(|line| line.contains(" events in "))?;
    Some(number_after(line, "")? + number_after(line, "overwritten ").unwrap_or(0))
}

/// Milliseconds from exec to attached, as the recorder itself says.
fn time_to_attach(programs: &Path) -> Result<f64> {
    let (_, err) = run_line(ATTACH, programs)?;
    let line = err.lines().find(|line| line.starts_with("attached "));
    let number = line.and_then(|line| {
        line.split_whitespace()
            .find_map(|word| word.parse::<f64>().ok().filter(|_| word.contains('.')))
    });
    number.with_context(|| format!("{ATTACH}: a time in {err:?}"))
}

/// Cost that a row adds to the bare call.
fn added(name: &str, costs: &[(&Row, u64)]) -> f64 {
    let cost = |name: &str| {
        costs
            .iter()
            .find(|(row, _)| row.name == name)
            .map_or(f64::NAN, |(_, cost)| *cost as f64)
    };
    cost(name) - cost(BARE)
}

fn ratios<'a>(row: &'a Row, costs: &'a [(&Row, u64)]) -> impl Iterator<Item = (f64, f64, &'static str)> + 'a {
    row.limits
        .iter()
        .map(|(at_most, peer)| (added(row.name, costs) / added(peer, costs), *at_most, *peer))
}

fn is_within_limits(row: &Row, costs: &[(&Row, u64)]) -> bool {
    ratios(row, costs).all(|(ratio, at_most, _)| ratio <= at_most)
}

fn print(costs: &[(&Row, u64)], lost: &[Option<u64>]) {
    println!(
        "raw_syscalls:sys_enter of one process, all fields, {RING} rings; ns per getppid, best of all rounds"
    );
    for ((row, cost), lost) in costs.iter().zip(lost) {
        let added = added(row.name, costs);
        let stderr: Vec<String> = ratios(row, costs)
            .map(|(ratio, at_most, peer)| format!("{ratio:.2} of {peer} (promised {at_most})"))
            .collect();
        let lost = lost.map_or_else(String::new, |lost| format!("lost {lost}"));
        println!(
            "{:<20} {cost:>6} {added:>+7.0}  {lost:<8} {}",
            row.name,
            stderr.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_recorders_output() {
        let stderr = "attached 1 program 13.2 ms after the start\n\
                    58,254 events in 6.00 s, 4.0 MiB in x; lost 1,002, overwritten 1,246,746\n";
        assert_eq!(recorded(stderr), Some(1_305_000));
        assert_eq!(number_after(stderr, "lost "), Some(1002));
        assert_eq!(recorded("7 events in 0.1 s, 4.0 KiB in x; lost 0"), Some(7));
        assert_eq!(recorded("no"), None);
        let perf = "[ perf record: Captured and wrote 44.586 MB x/perf.data (389439 samples) ]\n";
        assert_eq!(samples(perf), Some(389_439));
        assert_eq!(samples("[ perf record: Captured and wrote 0.1 MB x ]"), None);
    }

    #[test]
    fn limits_are_about_added_cost() {
        let row = |name| ROWS.iter().find(|row| row.name == name).unwrap();
        let (bare, tracefs, perf) = (row(BARE), row("tracefs ring"), row(PERF));
        let ours = row("kestrel stream");
        let costs = |cost| [(bare, 100), (tracefs, 400), (perf, 1100), (ours, cost)];
        assert!(is_within_limits(ours, &costs(280)));
        assert!(!is_within_limits(ours, &costs(281)));
        assert!(!is_within_limits(ours, &costs(301)));
    }
}
