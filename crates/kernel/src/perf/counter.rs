//! Counters that perf knows by a type and a number: the kernel's own, tracepoints, debug registers.

use super::attributes::{TYPE_BREAKPOINT, TYPE_SOFTWARE, TYPE_TRACEPOINT};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// `enum perf_sw_ids`: counters that the kernel keeps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's own names")]
#[repr(u64)]
pub enum Software {
    CpuClock = 0,
    TaskClock = 1,
    PageFaults = 2,
    ContextSwitches = 3,
    CpuMigrations = 4,
    MinorFaults = 5,
    MajorFaults = 6,
    AlignmentFaults = 7,
    EmulationFaults = 8,
    Dummy = 9,
    BpfOutput = 10,
    CgroupSwitches = 11,
}

impl Software {
    /// All software counters, each with its name and another spelling, as perf has them.
    pub const ALL: &[(Self, &'static str, &'static str)] = &[
        (Self::CpuClock, "cpu-clock", "cpu"),
        (Self::TaskClock, "task-clock", ""),
        (Self::PageFaults, "page-faults", "faults"),
        (Self::ContextSwitches, "context-switches", "cs"),
        (Self::CpuMigrations, "cpu-migrations", ""),
        (Self::MinorFaults, "minor-faults", ""),
        (Self::MajorFaults, "major-faults", ""),
        (Self::AlignmentFaults, "alignment-faults", ""),
        (Self::EmulationFaults, "emulation-faults", ""),
        (Self::Dummy, "dummy", ""),
        (Self::BpfOutput, "bpf-output", ""),
        (Self::CgroupSwitches, "cgroup-switches", ""),
    ];

    /// The name in perf's spelling.
    pub fn name(self) -> &'static str {
        let row = Self::ALL.iter().find(|(counter, ..)| *counter == self);
        row.map_or("", |(_, name, _)| name)
    }

    /// The names in perf's spelling, and its other spelling where it has one.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let row = Self::ALL.iter().find(|(counter, ..)| *counter == self);
        let names = row.map(|(_, name, other)| [*name, *other]);
        names.into_iter().flatten().filter(|name| !name.is_empty())
    }

    /// Whether it counts nanoseconds.
    pub fn counts_time(self) -> bool {
        matches!(self, Self::CpuClock | Self::TaskClock)
    }

    /// The one with this name.
    pub fn find(name: &str) -> Option<Self> {
        let mut named = Self::ALL
            .iter()
            .filter(|(_, own, other)| *own == name || !other.is_empty() && *other == name);
        named.next().map(|(counter, ..)| *counter)
    }
}

/// A counter or clock that perf knows by a type (`enum perf_type_id`) and a number of that type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// The event's type, as perf_event_open(2) takes it.
    pub kind: u32,
    /// The event's number within its type.
    pub config: u64,
    /// More of it, where the unit that counts takes more.
    #[serde(default)]
    pub config1: u64,
    /// The third configuration word of the kind.
    #[serde(default)]
    pub config2: u64,
    /// The counter's name in perf.
    pub name: Cow<'static, str>,
    /// Accesses that are watched, where it is a watchpoint: [`Breakpoint::access`].
    #[serde(default)]
    pub access: u32,
    /// Whether it counts nanoseconds.
    pub counts_time: bool,
}

/// A hardware breakpoint: address, length and kind of access that a debug register watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    /// The address that is watched.
    pub address: u64,
    /// The bytes: 1, 2, 4 or 8.
    pub length: u64,
    /// `HW_BREAKPOINT_R`, `_W` and `_X`.
    pub access: u32,
}

impl Counter {
    /// The accesses that a debug register watches.
    pub fn breakpoint(breakpoint: Breakpoint, name: String) -> Self {
        Self {
            kind: TYPE_BREAKPOINT,
            config: 0,
            // The kernel has the address and the length in the places of these two (`struct perf_event_attr`).
            config1: breakpoint.address,
            config2: breakpoint.length,
            access: breakpoint.access,
            name: name.into(),
            counts_time: false,
        }
    }

    /// Whether a debug register watches for it.
    pub fn is_breakpoint(&self) -> bool {
        self.kind == TYPE_BREAKPOINT
    }

    /// The hits of a tracepoint, by its number in tracefs.
    pub fn tracepoint(id: u64, name: String) -> Self {
        Self {
            kind: TYPE_TRACEPOINT,
            config: id,
            config1: 0,
            config2: 0,
            access: 0,
            name: name.into(),
            counts_time: false,
        }
    }
}

impl From<Software> for Counter {
    fn from(counter: Software) -> Self {
        Self {
            kind: TYPE_SOFTWARE,
            config: counter as u64,
            config1: 0,
            config2: 0,
            access: 0,
            name: counter.name().into(),
            counts_time: counter.counts_time(),
        }
    }
}
