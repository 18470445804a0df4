//! `interval`: a clock that ticks on one CPU, for what is to be done from time to time.

use super::event::{no_fields, resolved};
use super::period::{self, Period};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;

/// The kind of events made by a clock on one CPU.
#[derive(Debug)]
pub(in crate::catalog) struct Interval;

/// How often an event of this kind comes: its name as it is shown, and the nanoseconds from one to the next.
///
/// # Errors
/// When the specification does not say it.
pub fn interval(spec: &EventSpec) -> Result<(String, u64)> {
    let Period { name, nanoseconds } = Period::parse(Interval.name(), spec)?;
    Ok((format!("{}:{name}", Interval.name()), nanoseconds))
}

impl EventKind for Interval {
    fn name(&self) -> &'static str {
        "interval"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["i"]
    }

    fn listed(&self) -> bool {
        false
    }

    fn parts(&self) -> usize {
        2
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        period::names(self.name(), patterns, found);
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let Period { name, nanoseconds } = Period::parse(self.name(), spec)?;
        let name = format!("{}:{name}", self.name());
        let one = resolved(catalog, self.name(), name, Software::CpuClock, nanoseconds, false);
        Ok(vec![one])
    }
}
