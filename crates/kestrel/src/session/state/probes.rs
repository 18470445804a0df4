//! State of named probes.

use kestrel_hook::hook::control::ProbeWord;
use serde::{Deserialize, Serialize};

/// The named probes of a session: rows of a table that is in force beside the active one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// The table's number; none until there was a probe.
    pub table: Option<u32>,
    /// In the order in which they came.
    pub each: Vec<ProbeState>,
    /// Number of the last one: a number is never used twice.
    pub last: u32,
    /// Probes that are enabled as soon as the state of this generation is there.
    pub arming: Option<Arming>,
    /// Whether programs of theirs are on their way out, because there are newer ones: the next change finishes that first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
}

/// Named probes that are about to be enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arming {
    /// The state's generation.
    pub generation: u64,
    /// The probes' numbers.
    pub probes: Vec<u32>,
}

/// A named probe; whether it is enabled stands in the control page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeState {
    /// The probe's name.
    pub name: String,
    /// The probe's number.
    pub number: u32,
    /// The place of its word in the control page, and of its hits.
    pub place: u32,
    /// The slot of its programs, where they were made anew since it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// The text: events, predicate, block.
    pub source: String,
    /// The line of the kernel's own syntax that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// When it was added: ns since 1970.
    pub added: u64,
    /// The places at which the probe sits.
    pub sites: Vec<SiteState>,
    /// Records kept and lost under its numbers before it came: a probe of its name and shape had them.
    pub before: (u64, u64),
}

impl ProbeState {
    /// Word of the probe while it is enabled.
    pub fn word(&self) -> ProbeWord {
        ProbeWord::new(self.number, self.slot)
    }
}

/// State of an event of a named probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteState {
    /// Name of the event, its kind included.
    pub event: String,
    /// k, j or r as the kernel's list has it; t for tracepoints, f for trampolines.
    pub letter: char,
    /// Where in the kernel; 0 where it is in no place, or that is hidden.
    pub address: u64,
    /// The function, for function events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Bytes into it.
    pub offset: u32,
    /// The function's module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The instruction that it is about, where the hook sits elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Instruction>,
}

/// The instruction whose end or fault an event is: its hook sits on what comes next, or where the kernel takes faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Where in the kernel.
    pub address: u64,
    /// The function that it is in.
    pub symbol: String,
    /// Bytes into it.
    pub offset: u64,
    /// The function's module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// `post` or `fault`.
    pub phase: String,
}
