//! What the recorder counted, kept beside the streams: events recorded and lost per kind and CPU, which packets alone cannot tell.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What the recorder knows at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Kestrel's version.
    pub version: String,
    /// The command, as typed.
    pub command: String,
    /// When it began, ns since 1970.
    pub started_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// Counts per event and CPU; rows of zeros may be left out.
    pub events: Vec<EventCount>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// What became of the hits of one event on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventCount {
    /// The event's name.
    pub event: String,
    /// The CPU.
    pub cpu: u32,
    /// Written to a buffer.
    pub recorded: u64,
    /// Refused: the buffer was full, or the kernel skipped the program.
    pub lost: u64,
    /// Recorded, then overwritten by newer ones before they were read.
    pub overwritten: u64,
}

impl Summary {
    /// Its file within a trace's side folder.
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
}
