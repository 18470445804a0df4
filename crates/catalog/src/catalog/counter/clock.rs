//! Kinds of events made by clocks: what `interval` and `profile` have in common.

use super::event::{no_fields, resolved};
use super::period::{self, Period};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;

/// The kind of events made by a clock.
#[derive(Debug)]
pub(in crate::catalog) struct Clock {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    /// Whether it ticks on every CPU instead of one.
    pub(super) every_cpu: bool,
}

impl Clock {
    /// How often an event comes: its name as it is shown, and the nanoseconds from one to the next.
    pub(super) fn period(&self, spec: &EventSpec) -> Result<(String, u64)> {
        let Period { name, nanoseconds } = Period::parse(self.name, spec)?;
        Ok((format!("{}:{name}", self.name), nanoseconds))
    }
}

impl EventKind for Clock {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn listed(&self) -> bool {
        false
    }

    fn joins_handlers(&self) -> bool {
        self.every_cpu
    }

    fn parts(&self) -> usize {
        2
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        period::names(self.name, patterns, found);
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let (name, nanoseconds) = self.period(spec)?;
        let clock = Software::CpuClock;
        let one = resolved(catalog, self.name, name, clock, nanoseconds, self.every_cpu);
        Ok(vec![one])
    }
}
