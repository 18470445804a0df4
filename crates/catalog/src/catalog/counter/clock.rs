//! Kinds of events made by clocks: what `interval` and `profile` have in common.

use super::event::{counter_event, no_fields};
use super::period::{self, Period};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, KindRow, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;
use kestrel_trace::event_kind::EventKindNames;

/// The kind of events made by a clock.
#[derive(Debug)]
pub(in crate::catalog) struct Clock {
    row: KindRow,
    /// Whether it ticks on every CPU instead of one.
    every_cpu: bool,
}

impl Clock {
    /// The kind of this name; each handler of a clock that ticks on one CPU has a program of its own.
    pub(super) const fn new(names: EventKindNames, every_cpu: bool) -> Self {
        Self {
            row: KindRow {
                listed: false,
                joins_handlers: every_cpu,
                ..KindRow::new(names, 2)
            },
            every_cpu,
        }
    }

    /// Period of the event: as text, and in ns.
    pub(super) fn period(&self, spec: &EventSpec) -> Result<(String, u64)> {
        let Period { name, nanoseconds } = Period::parse(self.name(), spec)?;
        Ok((format!("{}:{name}", self.name()), nanoseconds))
    }
}

impl EventKind for Clock {
    fn row(&self) -> &KindRow {
        &self.row
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        period::names(self.name(), patterns, found);
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let (name, nanoseconds) = self.period(spec)?;
        let clock = Software::CpuClock;
        let one = counter_event(catalog, self.name(), name, clock, nanoseconds, self.every_cpu);
        Ok(vec![one])
    }
}
