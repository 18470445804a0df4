//! `profile`: a clock that ticks on every CPU, for seeing what runs there.

use super::event::{no_fields, resolved};
use super::period::{self, Period};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;

/// The kind of events made by a clock on every CPU.
#[derive(Debug)]
pub(in crate::catalog) struct Profile;

impl EventKind for Profile {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["p"]
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
        let one = resolved(catalog, self.name(), name, Software::CpuClock, nanoseconds, true);
        Ok(vec![one])
    }
}
