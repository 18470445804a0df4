//! `cargo xtask bench read`: nanoseconds and memory that reading a recording takes, ours and the peers' side by side in one run: the same load recorded by
//! each recorder, then each reader over the recording that it understands, round after round. Noise only adds, so the best round counts; the median is
//! shown beside it.

mod load;
mod recordings;
mod timing;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use recordings::{Recorder, Recordings};
use timing::{Figures, Spent};

/// Measure what reading a recording takes, beside perf and trace-cmd.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Events of each recording, about.
    #[arg(long, default_value_t = 10_000_000)]
    events: u64,
    /// Rounds over all readers.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only the readers whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Keep the recordings in this folder, or take those that are there.
    #[arg(long, value_name = "DIR")]
    keep: Option<std::path::PathBuf>,
    /// Be the load that is recorded: so many batches of calls.
    #[arg(long, hide = true)]
    load: Option<u64>,
}

/// A reader of a recording.
struct Row {
    name: &'static str,
    reads: Recorder,
    /// A shell line, in the folder of the recordings.
    line: &'static str,
    /// Promised factors over these tools, for each event.
    promises: &'static [(f64, &'static str)],
}

const SCRIPT: &str = "perf script";
const REPORT: &str = "perf report";
const BY_COMM: &str = "perf report --sort comm";
const TRACE_CMD: &str = "trace-cmd report";
const PRINT: &str = "kestrel print";
const OWN_REPORT: &str = "kestrel report";

/// Of a compressed recording: 1.5 times the processor time of a plain one.
const COMPRESSED: f64 = 0.667;

/// Everything measured, in the order in which it is printed.
const ROWS: &[Row] = &[
    Row {
        name: SCRIPT,
        reads: Recorder::Perf,
        line: "perf script -i perf.data",
        promises: &[],
    },
    Row {
        name: TRACE_CMD,
        reads: Recorder::Tracefs,
        line: "trace-cmd report trace.dat",
        promises: &[],
    },
    Row {
        name: REPORT,
        reads: Recorder::Perf,
        line: "perf report --stdio -i perf.data",
        promises: &[],
    },
    Row {
        name: BY_COMM,
        reads: Recorder::Perf,
        line: "perf report --stdio --sort comm -i perf.data",
        promises: &[],
    },
    Row {
        name: PRINT,
        reads: Recorder::Kestrel,
        line: "kestrel print trace",
        promises: &[(10.0, SCRIPT), (10.0, TRACE_CMD)],
    },
    Row {
        name: "kestrel print --format json",
        reads: Recorder::Kestrel,
        line: "kestrel print --format json trace",
        promises: &[],
    },
    Row {
        name: "kestrel print --format csv",
        reads: Recorder::Kestrel,
        line: "kestrel print --format csv trace",
        promises: &[],
    },
    Row {
        name: "kestrel print --where",
        reads: Recorder::Kestrel,
        line: "kestrel print --where 'id == 110 && pid > 1' trace",
        promises: &[],
    },
    Row {
        name: OWN_REPORT,
        reads: Recorder::Kestrel,
        line: "kestrel report trace",
        promises: &[(10.0, REPORT)],
    },
    Row {
        name: "kestrel report --by comm",
        reads: Recorder::Kestrel,
        line: "kestrel report --by comm trace",
        promises: &[(10.0, REPORT)],
    },
    Row {
        name: "kestrel report --by id",
        reads: Recorder::Kestrel,
        line: "kestrel report --by id trace",
        promises: &[(10.0, REPORT)],
    },
    Row {
        name: "kestrel report --latency",
        reads: Recorder::Kestrel,
        line: "kestrel report --latency 'raw_syscalls:*' trace",
        promises: &[(10.0, REPORT)],
    },
    Row {
        name: "kestrel print, compressed",
        reads: Recorder::Packed,
        line: "kestrel print packed",
        promises: &[(COMPRESSED, PRINT)],
    },
    Row {
        name: "kestrel report, compressed",
        reads: Recorder::Packed,
        line: "kestrel report packed",
        promises: &[],
    },
];

/// Other comparisons, without a promise: a reader and a peer of it.
const BESIDE: [(&str, &str); 6] = [
    ("kestrel print --format json", SCRIPT),
    ("kestrel print --format csv", SCRIPT),
    ("kestrel print --where", SCRIPT),
    ("kestrel report --by comm", BY_COMM),
    ("kestrel report --latency", BY_COMM),
    ("kestrel report, compressed", OWN_REPORT),
];

/// MiB that our readers take at most.
const MEMORY_AT_MOST: f64 = 50.0;

/// Records, measures, prints the tables, judges the promises.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(batches) = options.load {
        load::run(batches);
        return Ok(ExitCode::SUCCESS);
    }
    let recordings = Recordings::make(options.events, options.keep.as_deref())?;
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| row.name.contains(&options.only))
        .collect();
    let mut spent: Vec<Vec<Spent>> = vec![Vec::new(); rows.len()];
    for round in 0..options.rounds.max(1) {
        for (row, spent) in rows.iter().zip(&mut spent) {
            eprintln!("round {} of {}: {}", round + 1, options.rounds.max(1), row.name);
            spent.push(timing::run(row.line, &recordings)?);
        }
    }
    let measured = rows.iter().zip(spent).map(|(row, spent)| {
        let events = recordings.events(row.reads);
        (*row, Figures::of(&spent, events))
    });
    let measured: Vec<(&Row, Figures)> = measured.collect();
    print(&measured, &recordings);
    let kept = measured
        .iter()
        .all(|(row, figures)| kept(row, figures, &measured));
    Ok(match kept {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Factor between a peer's processor time for an event and that of one reader; none where it was not measured.
fn times(figures: &Figures, peer: &str, measured: &[(&Row, Figures)]) -> Option<f64> {
    let (_, peer) = measured.iter().find(|(row, _)| row.name == peer)?;
    Some(peer.cpu.best / figures.cpu.best)
}

fn kept(row: &Row, figures: &Figures, measured: &[(&Row, Figures)]) -> bool {
    let promised = |(at_least, peer): &(f64, &str)| {
        times(figures, peer, measured).is_none_or(|times| times >= *at_least)
    };
    let ours = matches!(row.reads, Recorder::Kestrel | Recorder::Packed);
    row.promises.iter().all(promised) && (!ours || figures.memory_mib <= MEMORY_AT_MOST)
}

fn print(measured: &[(&Row, Figures)], recordings: &Recordings) {
    println!("raw_syscalls:sys_enter and sys_exit of one process, all fields; output to /dev/null");
    for recorder in [
        Recorder::Kestrel,
        Recorder::Packed,
        Recorder::Perf,
        Recorder::Tracefs,
    ] {
        println!("  {:?}: {} events", recorder, recordings.events(recorder));
    }
    println!("ns of processor time and of the clock per event (best, median of the rounds); MiB at most");
    println!(
        "{:<28} {:>8} {:>8}   {:>8} {:>8}   {:>6}",
        "", "cpu", "median", "clock", "median", "MiB"
    );
    for (row, figures) in measured {
        let comparisons = row.promises.iter().filter_map(|(at_least, peer)| {
            let times = times(figures, peer, measured)?;
            Some(format!("{times:.1} times {peer} (promised {at_least})"))
        });
        let beside = BESIDE.iter().filter(|(name, _)| *name == row.name);
        let beside = beside
            .filter_map(|(_, peer)| Some(format!("{:.1} times {peer}", times(figures, peer, measured)?)));
        let comparisons: Vec<String> = comparisons.chain(beside).collect();
        println!(
            "{:<28} {:>8.1} {:>8.1}   {:>8.1} {:>8.1}   {:>6.1}   {}",
            row.name,
            figures.cpu.best,
            figures.cpu.median,
            figures.clock.best,
            figures.clock.median,
            figures.memory_mib,
            comparisons.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timing::Pair;

    #[test]
    fn promises_are_about_processor_time_and_memory() {
        let row = |name| ROWS.iter().find(|row| row.name == name).unwrap();
        let figures = |cpu, memory_mib| Figures {
            cpu: Pair {
                best: cpu,
                median: 1e6,
            },
            clock: Pair {
                best: 1e6,
                median: 1e6,
            },
            memory_mib,
        };
        let print = row("kestrel print");
        let measured = |ours| {
            [
                (row(SCRIPT), figures(1000.0, 500.0)),
                (row(TRACE_CMD), figures(1200.0, 500.0)),
                (print, ours),
            ]
        };
        for (ours, expected) in [
            (figures(99.0, 9.0), true),
            (figures(101.0, 9.0), false),
            (figures(99.0, 51.0), false),
        ] {
            assert_eq!(kept(print, &ours, &measured(ours)), expected, "{ours:?}");
        }
        assert!(kept(print, &figures(1e9, 9.0), &[]), "a peer that was left out");
    }
}
