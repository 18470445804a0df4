//! `interval`: a clock that ticks on one CPU, for what is to be done from time to time.

use super::event::{no_fields, resolved};
use super::period::{self, Period};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;

/// The kind.
#[derive(Debug)]
pub(in crate::catalog) struct Interval;

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
