//! Names that the probes of one text share: tables and buffers, parameters, maps; no probes, no code.

use super::shape::Shapes;
use super::tree::Type;
use crate::lang::diag::Diagnostic;
use crate::packets::Packets;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::layout::StackMode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A map as a program declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredMap {
    /// The most keys that the map has room for.
    pub entries: u32,
    /// Whether a new key takes the place of one that was not used for long.
    pub evicts: bool,
}

/// Names that the probes of one table file or script share. Checking a probe may add to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Globals {
    /// Names that `use_table` may say.
    pub tables: Vec<String>,
    /// Names that `to`, `use_buffer`, `freeze`, `thaw` and `reset` may say; the first is the default buffer.
    pub buffers: Vec<String>,
    /// `param NAME = VALUE`, in source order.
    pub parameters: Vec<Parameter>,
    /// Whether what is asked of user space (`notify`, `exec`) goes through a buffer of its own.
    pub messages: bool,
    /// Whether the session follows threads of processes, so that `is_target` can be asked.
    pub targets: bool,
    /// Whether the program belongs to a persistent session, which an agent may serve.
    pub persistent: bool,
    /// Maps by their numbers. Those of a running session may stand here already when a table is added to it.
    pub maps: Vec<MapType>,
    /// Most keys of each map (`config = { max_map_keys = N }`).
    pub max_map_keys: Option<u32>,
    /// The maps that a program declares (`let @m = hash(100)`), by their names.
    pub declared: BTreeMap<String, DeclaredMap>,
    /// Maps that are read but not written so far: by their numbers, with the error if none writes them.
    pub unwritten: Vec<(u32, Diagnostic)>,
    /// Maps, by their numbers, that keys were taken out of or asked for before anything says what they hold: any value will do.
    pub open: BTreeSet<u32>,
    /// The name of the source that is checked, where one event may stand in several sources: each keeps its maps apart.
    pub text: String,
    /// Name and text of a program, in which `errorf` and `warnf` name their places.
    pub source: Option<(String, Arc<str>)>,
    /// Types of the scalars in maps, by the maps' numbers: what a pointer points to is known to the handlers alone.
    pub held: BTreeMap<u32, Type>,
    /// The map whose value is the time of `tseries`, where it is not the kernel's clock.
    pub series_clock: Option<String>,
    /// The license under which a program is loaded, where it says (`license`).
    pub license: Option<String>,
    /// Where packets go that programs hand over, by number.
    pub packets: Vec<Packets>,
    /// Nanoseconds from the kernel's clock to the date, where intervals of `tseries` begin at whole multiples of the date.
    pub wall_clock: Option<i64>,
    /// Whether failures of helpers are counted (`-k`).
    pub counts_failures: bool,
    /// Whether updates of maps that found no room are counted by their places (`-k`, `-f json`).
    pub counts_updates: bool,
    /// Whether something is divided by what may be zero, read by an index that may lie outside of its array, or repeated as long as a condition holds: these
    /// mishaps are counted as failures of helpers are, always.
    pub divides: bool,
    /// Whether there are processes whose stacks are unwound by their tables (`dw_ustack`).
    pub unwinds: bool,
    /// Whether programs unwind stacks by tables themselves.
    pub unwinds_in_kernel: bool,
    /// Whether a program may run commands (`--unsafe`).
    pub allows_unsafe: bool,
    /// Bytes of a text that is read without a length (`max_strlen`).
    pub max_strlen: Option<u32>,
    /// Addresses of symbols of the kernel, by their names: of those that were asked for before ([`Shapes::symbols`]).
    pub addresses: BTreeMap<String, u64>,
    /// Whether the program is for a recording: symbols are those that it keeps, and not all of its kernel's.
    pub is_recorded: bool,
    /// Places of symbols of programs, by events and names ([`Shapes::user_symbols`]).
    pub user_places: BTreeMap<(String, String), UserPlace>,
    /// Numbers of control groups, by the paths that were asked for.
    pub control_groups: BTreeMap<String, u64>,
    /// CPUs that the kernel has room for.
    pub cpus: u64,
    /// How stacks are shown where nothing else is said (`stack_mode`).
    pub stack_mode: StackMode,
    /// Types of variables and maps from all their uses.
    pub shapes: Shapes,
    /// Whether types are inferred from all uses (scripts): sources are checked again until `shapes` do not grow, and until then a use that does not agree with what is known is no error.
    pub infers_types: bool,
    /// Maps, by their numbers, that were counted with as integers: what adds to them cannot come to mean elements later.
    pub counted: BTreeSet<u32>,
}

/// Place of a program's symbol in the process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlace {
    /// The address, as an expression of the language at the event.
    pub address: String,
    /// Bytes of what lies there; 0 where that is not known.
    pub size: u64,
}

/// A value that is changed while the programs run.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The parameter's name.
    pub name: String,
    /// The parameter's type, a scalar.
    pub ty: Type,
    /// The value it starts with.
    pub value: u64,
}

impl Globals {
    /// Whether there is a map of failures.
    pub fn keeps_failures(&self) -> bool {
        self.counts_failures || self.counts_updates || self.divides
    }

    /// A parameter by its name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|p| p.name == name)
    }

    /// A map by its name, without the at sign.
    pub fn map(&self, name: &str) -> Option<&MapType> {
        self.maps.iter().find(|map| map.name == name)
    }
}
