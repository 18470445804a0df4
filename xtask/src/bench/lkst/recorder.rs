//! The recorders that stand beside each other: a shell line each, and how to learn what it recorded. All keep the newest events in rings
//! of one size, of the build's processes alone, and all detach at the end, however it comes.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Ring of every recorder, per CPU.
pub(crate) const RING: &str = "4M";

/// One way to record a set of events while a build runs.
pub(crate) struct Recorder {
    pub(crate) name: &'static str,
    /// The shell line; EVENTS is a comma-separated list, LIST a file with one event per line, DIR a scratch folder, BUILD
    /// the command to follow.
    pub(crate) line: &'static str,
    /// Events that it refuses, and why.
    pub(crate) refuses: &'static [(&'static str, &'static str)],
    /// Events per name (or under one name, where it does not tell them apart), and how many of them were lost.
    pub(crate) counts: fn(scratch: &Path) -> Result<Option<Counts>>,
}

/// A recorder's own counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Handled, those overwritten since included.
    pub(crate) events: BTreeMap<String, u64>,
    /// Not handled because a ring was full.
    pub(crate) lost: u64,
    /// Not seen: the kernel does not nest the programs of some kinds of events.
    pub(crate) missed: u64,
}

impl Counts {
    pub(crate) fn total(&self) -> u64 {
        self.events.values().sum()
    }
}

/// The tracefs instance; one that a killed run left is taken over.
const TRACEFS: &str = "ring=/sys/kernel/tracing/instances/kestrel-bench; \
    drop() { echo 0 > $ring/tracing_on; echo > $ring/set_event; \
        cat $ring/per_cpu/cpu*/stats > DIR/stats; rmdir $ring; }; \
    if [ -d $ring ]; then drop; fi; mkdir $ring && trap 'kill $! 2>/dev/null; wait; drop' EXIT && trap 'exit 130' INT TERM \
    && echo 4096 > $ring/buffer_size_kb && echo mono > $ring/trace_clock && echo 1 > $ring/options/event-fork \
    && sh -c 'echo $$ > '$ring'/set_event_pid && cat LIST > '$ring'/set_event && exec BUILD' & wait $!";

/// Everybody, in the order in which they are printed.
pub(crate) const RECORDERS: &[Recorder] = &[
    Recorder {
        name: "kestrel",
        line: "exec kestrel record --overwrite --buffer-size RING -e EVENTS -o DIR/trace -- BUILD",
        refuses: &[],
        counts: kestrel,
    },
    Recorder {
        name: "tracefs",
        line: TRACEFS,
        refuses: &[],
        counts: tracefs,
    },
    Recorder {
        name: "perf",
        line: "exec perf record -q --overwrite -m RING -e EVENTS -o DIR/perf.data -- BUILD",
        refuses: &[(
            "irq_vectors:irq_work_exit",
            "the kernel does not let it be sampled",
        )],
        counts: |_| Ok(None),
    },
];

/// No recorder: what the others are read against.
pub(crate) const NONE: Recorder = Recorder {
    name: "none",
    line: "exec BUILD",
    refuses: &[],
    counts: |_| Ok(None),
};

#[derive(Deserialize)]
struct Summary {
    events: Vec<EventCount>,
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct EventCount {
    event: String,
    recorded: u64,
    lost: u64,
    overwritten: u64,
}

/// From the summary in the trace directory.
fn kestrel(scratch: &Path) -> Result<Option<Counts>> {
    let path = scratch.join("trace/.kestrel/summary.json");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let summary: Summary =
        serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))?;
    let mut counts = Counts::default();
    for count in summary.events {
        *counts.events.entry(count.event).or_default() += count.recorded + count.overwritten;
        counts.lost += count.lost;
    }
    let missed = |note: &String| {
        let (number, rest) = note.split_once(" hit")?;
        let missed = rest.contains("were missed") || rest.contains("was missed");
        missed
            .then(|| number.replace(',', "").parse::<u64>().ok())
            .flatten()
    };
    counts.missed = summary.notes.iter().filter_map(missed).sum();
    Ok(Some(counts))
}

/// From the rings' statistics.
fn tracefs(scratch: &Path) -> Result<Option<Counts>> {
    let path = scratch.join("stats");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let sum = |name: &str| -> u64 {
        text.lines()
            .filter_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
            .sum()
    };
    Ok(Some(Counts {
        events: BTreeMap::from([("all".to_owned(), sum("entries:") + sum("overrun:"))]),
        lost: sum("dropped events:") + sum("commit overrun:"),
        missed: 0,
    }))
}
