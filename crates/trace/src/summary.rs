//! Counts of the recorder, kept beside the streams: events recorded and lost per kind and CPU, which packets alone cannot tell.

use crate::error::{Error, Result};
use crate::info::TraceInfo;
use crate::print::{counted, thousands, were};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Remark about a trace that has no summary.
pub const UNFINISHED: &str = "its recorder wrote no counts at the end: it was killed, or is still at work; what was lost is known as far as the packets tell";

/// Summary by the recorder at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Kestrel's version.
    pub version: String,
    /// The command, as typed.
    pub command: String,
    /// When it began, ns since 1970.
    pub started_ns: u64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Counts per event and CPU; rows of zeros may be left out.
    pub events: Vec<EventCount>,
    /// Of the events lost, those that came while their buffer was frozen; `None` where that was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<u64>,
    /// Hits of all events that the kernel brought to no program; none where a trace comes from a recorder that did not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Other notes to readers.
    pub notes: Vec<String>,
    /// Losses that its kernel could not count, where that does not matter to these figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Why it could write no more before it was to end, and how much that cost: the disk was full. What was not written counts as lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<CutShort>,
}

/// Hits that the kernel brought to no program: it was running already on that CPU, or more calls were on their way than the kernel follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Missed {
    /// The number of hits.
    pub hits: u64,
    /// Whether there may have been more: this kernel does not count all of them.
    pub at_least: bool,
}

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.hits, self.at_least) {
            // A bound of 0 would say nothing.
            (0, true) => f.write_str("missed 0 (not all are counted)"),
            (hits, true) => write!(f, "missed at least {}", thousands(hits)),
            (hits, false) => write!(f, "missed {}", thousands(hits)),
        }
    }
}

/// Why a recorder could write no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CutShort {
    /// Events that were in its buffers and could not be written.
    pub unwritten: u64,
    /// The system's answer.
    pub why: String,
}

impl std::fmt::Display for CutShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unwritten, why } = self;
        write!(
            f,
            "the trace is not whole: recording was cut short ({why}), and {} that had been recorded could not be written",
            counted(*unwritten, "event")
        )
    }
}

/// Counts of one event's hits on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventCount {
    /// The event's name.
    pub event: String,
    /// The CPU.
    pub cpu: u32,
    /// Written to a buffer and not overwritten: those are in the trace.
    pub recorded: u64,
    /// Lost: the buffer was full.
    pub lost: u64,
    /// Written to a buffer, then overwritten by newer ones before they were read; not among `recorded`.
    pub overwritten: u64,
}

/// Records of one CPU that were written to a trace and are no longer there: a file was cut, damaged or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Absent {
    /// The CPU.
    pub cpu: u32,
    /// Records that the recorder wrote.
    pub recorded: u64,
    /// Records that can be read.
    pub found: u64,
    /// The files that they may have been in: one for each buffer.
    pub files: Vec<String>,
    /// Whether none of these files is there.
    pub removed: bool,
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match (self.files.as_slice(), self.removed) {
            ([file], true) => format!("{file} is not there"),
            ([file], false) => format!("{file} was cut or damaged"),
            (files, true) => format!("none of {} is there", files.join(", ")),
            (files, false) => format!("one of {} was cut, damaged or removed", files.join(", ")),
        };
        let (found, cpu) = (thousands(self.found), self.cpu);
        write!(
            f,
            "{what}: {found} of {} of CPU {cpu}",
            counted(self.recorded, "event")
        )
    }
}

/// Lines about a trace that is not whole, one for all and one for each CPU; nothing of one that is.
pub fn absent_lines(absent: &[Absent], all: u64) -> Vec<String> {
    if absent.is_empty() {
        return Vec::new();
    }
    let missing: u64 = absent.iter().map(|it| it.recorded - it.found).sum();
    let head = format!(
        "the trace is not whole: {} of {} that were recorded can be read",
        thousands(all.saturating_sub(missing)),
        counted(all, "event")
    );
    let each = absent.iter().map(|it| format!("  {it}"));
    std::iter::once(head).chain(each).collect()
}

/// Why events were lost, a line for each reason. `frozen` of them came while their buffer was frozen, where that was counted.
pub fn lost_lines(lost: u64, frozen: Option<u64>) -> Vec<String> {
    let why = match frozen {
        Some(_) => "the ring was full",
        None => "the ring was full, or the buffer was frozen",
    };
    let frozen = frozen.unwrap_or(0).min(lost);
    [(lost - frozen, why), (frozen, "the buffer was frozen")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("lost {} while recording: {why}", counted(count, "event")))
        .collect()
}

/// Note about a buffer that was frozen while events came.
pub fn note_frozen(buffer: &str, lost: u64) -> Option<String> {
    let what = || {
        format!(
            "{} of buffer {buffer} {} lost because it was frozen",
            counted(lost, "event"),
            were(lost)
        )
    };
    (lost > 0).then(what)
}

impl Summary {
    /// The file within a trace's side folder.
    pub const FILE: &'static str = "summary.json";

    /// The text of its file.
    pub fn to_text(&self) -> String {
        // A struct of strings and numbers cannot fail to serialise.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads what `to_text` wrote; unknown keys are passed over, missing ones are empty.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::Side {
            what: "the trace's summary".into(),
            why: e.to_string(),
        })
    }

    /// Events lost, of all kinds and CPUs.
    pub fn lost(&self) -> u64 {
        self.events.iter().map(|count| count.lost).sum()
    }

    /// Events overwritten, of all kinds and CPUs.
    pub fn overwritten(&self) -> u64 {
        self.events.iter().map(|count| count.overwritten).sum()
    }

    /// Events written to the trace, of all kinds and CPUs.
    pub fn recorded(&self) -> u64 {
        self.events.iter().map(|count| count.recorded).sum()
    }

    /// Records that were written to a trace and are not there any more, by CPU; `found` are the records read of each, `streams` the files that are there.
    pub fn absent(&self, found: &BTreeMap<u32, u64>, streams: &[&str], info: &TraceInfo) -> Vec<Absent> {
        let mut recorded: BTreeMap<u32, u64> = BTreeMap::new();
        for count in &self.events {
            let sum = recorded.entry(count.cpu).or_default();
            *sum = sum.saturating_add(count.recorded);
        }
        let short = recorded.into_iter().filter_map(|(cpu, recorded)| {
            let found = found.get(&cpu).copied().unwrap_or(0);
            (found < recorded).then_some((cpu, recorded, found))
        });
        short
            .map(|(cpu, recorded, found)| {
                let files: Vec<String> = info.buffers.iter().map(|buffer| buffer.stream(cpu)).collect();
                Absent {
                    cpu,
                    recorded,
                    found,
                    removed: !files.iter().any(|file| streams.contains(&file.as_str())),
                    files,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_hits_are_described_as_far_as_known() {
        let text = |hits, at_least| Missed { hits, at_least }.to_string();
        assert_eq!(text(0, false), "missed 0");
        assert_eq!(text(0, true), "missed 0 (not all are counted)");
        assert_eq!(text(1234, false), "missed 1,234");
        assert_eq!(text(1234, true), "missed at least 1,234");
    }
}
