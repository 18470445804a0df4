//! `hardware`: counters of the processor, on every CPU: one event per so many cycles, instructions, cache misses.

use super::event::{counter_event, no_fields, parse_counter};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, KindRow, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::{Error, Result};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Counter;
use kestrel_trace::event_kind;

/// The kind of events made by hardware counters.
#[derive(Debug)]
pub(super) struct Hardware;

const ROW: KindRow = KindRow {
    listed: false,
    ..KindRow::new(event_kind::HARDWARE, 1)
};

/// `PERF_TYPE_HARDWARE`.
pub(super) const TYPE: u32 = 0;

/// Default counters of the processor, as perf has them.
pub(super) const USUAL: &[&str] = &["cycles", "instructions", "branches", "branch-misses"];

/// A counter, with bpftrace's names and counts.
struct Row {
    name: &'static str,
    /// The second name; empty where there is none.
    alias: &'static str,
    /// `enum perf_hw_id`.
    config: u64,
    /// Default number of counts per event.
    count: u64,
}

const fn row(config: u64, name: &'static str, alias: &'static str, count: u64) -> Row {
    Row {
        name,
        alias,
        config,
        count,
    }
}

const COUNTERS: &[Row] = &[
    row(0, "cpu-cycles", "cycles", 1_000_000),
    row(1, "instructions", "", 1_000_000),
    row(2, "cache-references", "", 1_000_000),
    row(3, "cache-misses", "", 1_000_000),
    row(4, "branch-instructions", "branches", 100_000),
    row(5, "branch-misses", "", 100_000),
    row(6, "bus-cycles", "", 100_000),
    row(7, "frontend-stalls", "stalled-cycles-frontend", 1_000_000),
    row(8, "backend-stalls", "stalled-cycles-backend", 1_000_000),
    row(9, "ref-cycles", "", 1_000_000),
];

/// Whether a row has this name.
fn is_called(row: &Row, name: &str) -> bool {
    row.name == name || !row.alias.is_empty() && row.alias == name
}

/// The number of a counter by any of its names.
pub(super) fn config(name: &str) -> Option<u64> {
    let row = COUNTERS.iter().find(|row| is_called(row, name));
    row.map(|row| row.config)
}

/// All names of counters.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COUNTERS.iter().flat_map(|row| [row.name, row.alias])
}

/// Whether the kernel found counters in the processor: as devices of perf (`cpu`; `cpu_core` and `cpu_atom` where cores differ).
fn has_counters(catalog: &Catalog) -> bool {
    let devices = catalog.host().path("/sys/bus/event_source/devices");
    ["cpu", "cpu_core", "cpu_atom"]
        .iter()
        .any(|name| devices.join(name).exists())
}

/// Whether there is a counter of that name.
pub(super) fn is_counter(name: &str) -> bool {
    COUNTERS.iter().any(|row| is_called(row, name))
}

impl EventKind for Hardware {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let wanted = |row: &&Row| patterns.first().is_none_or(|p| p.matches(row.name));
        if has_counters(catalog) {
            COUNTERS.iter().filter(wanted).for_each(|row| found(row.name));
        }
        Ok(())
    }

    fn fixed_names(&self) -> Vec<&'static str> {
        names().filter(|name| !name.is_empty()).collect()
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let names: Vec<&str> = COUNTERS.iter().map(|row| row.name).collect();
        let (row, count) = parse_counter(spec, self.name(), &names, catalog.script().is_some(), |name| {
            let row = COUNTERS.iter().find(|row| is_called(row, name))?;
            Some((row, row.count))
        })?;
        if !has_counters(catalog) {
            return Err(Error::Unsupported {
                what: format!("hardware:{}", row.name),
                why: "the kernel has found no counters in this processor, as in most virtual machines; software:cpu-clock and profile:hz:99 are clocks that need none".to_owned(),
            });
        }
        let counter = Counter {
            kind: TYPE,
            config: row.config,
            config1: 0,
            config2: 0,
            name: row.name.into(),
            access: 0,
            counts_time: false,
        };
        let name = match &spec.parts[1..] {
            // A script's, as it is written.
            [written] if catalog.script().is_some() => format!("hardware:{}", written.text),
            _ => format!("hardware:{}:{count}", row.name),
        };
        Ok(vec![counter_event(
            catalog,
            self.name(),
            name,
            counter,
            count,
            true,
        )])
    }
}
