//! `software`: counters that the kernel keeps itself, on every CPU: one event per so many faults, switches, nanoseconds.

use super::event::{no_fields, resolved};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::{Error, Result};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;

/// The kind.
#[derive(Debug)]
pub(in crate::catalog) struct SoftwareKind;

/// Counters that no program can be run by: they count, but nothing overflows.
const WITHOUT_EVENTS: &[Software] = &[Software::Dummy, Software::BpfOutput];

/// Of how many one is an event where nobody says it, as bpftrace has it.
fn default_count(counter: Software) -> u64 {
    match counter {
        Software::CpuClock | Software::TaskClock => 1_000_000,
        Software::PageFaults | Software::MinorFaults => 100,
        Software::ContextSwitches | Software::CgroupSwitches => 1000,
        _ => 1,
    }
}

fn counters() -> impl Iterator<Item = Software> {
    let all = Software::ALL.iter().map(|(counter, ..)| *counter);
    all.filter(|counter| !WITHOUT_EVENTS.contains(counter))
}

impl EventKind for SoftwareKind {
    fn name(&self) -> &'static str {
        "software"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["s"]
    }

    fn listed(&self) -> bool {
        false
    }

    fn parts(&self) -> usize {
        1
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let wanted = |counter: &Software| patterns.first().is_none_or(|p| p.matches(counter.name()));
        counters()
            .filter(wanted)
            .for_each(|counter| found(counter.name()));
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let shape = || {
            let names: Vec<&str> = counters().map(Software::name).collect();
            let shape = format!(
                "software:NAME or software:NAME:COUNT, with a name of {}",
                names.join(", ")
            );
            Error::wrong_shape(spec, &shape)
        };
        let (name, count) = match &spec.parts[1..] {
            [name] => (name, None),
            [name, count] => (name, Some(count)),
            _ => return Err(shape()),
        };
        let counter = Software::find(&name.text).filter(|counter| !WITHOUT_EVENTS.contains(counter));
        let counter = counter.ok_or_else(shape)?;
        let count = match count {
            None => default_count(counter),
            Some(count) => count.text.parse().map_err(|_| shape())?,
        };
        if count == 0 || count > i64::MAX as u64 {
            return Err(shape());
        }
        let name = format!("software:{}:{count}", counter.name());
        Ok(vec![resolved(catalog, self.name(), name, counter, count, true)])
    }
}
