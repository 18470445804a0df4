//! `software`: counters that the kernel keeps itself, on every CPU: one event per so many faults, switches, nanoseconds.

use super::event::{counter_event, no_fields, parse_counter};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, KindRow, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::Result;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::Software;
use kestrel_trace::event_kind;

/// The kind of events made by the kernel's software counters.
#[derive(Debug)]
pub(in crate::catalog) struct SoftwareKind;

const ROW: KindRow = KindRow {
    listed: false,
    ..KindRow::new(event_kind::SOFTWARE, 1)
};

/// Default number of counts per event where the event's text gives no number, as in bpftrace.
fn default_count(counter: Software) -> u64 {
    match counter {
        Software::CpuClock | Software::TaskClock => 1_000_000,
        Software::PageFaults | Software::MinorFaults => 100,
        Software::ContextSwitches | Software::CgroupSwitches => 1000,
        _ => 1,
    }
}

fn counters() -> impl Iterator<Item = Software> {
    Software::ALL.iter().map(|(counter, ..)| *counter)
}

impl EventKind for SoftwareKind {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let wanted = |counter: &Software| patterns.first().is_none_or(|p| p.matches(counter.name()));
        counters()
            .filter(wanted)
            .for_each(|counter| found(counter.name()));
        Ok(())
    }

    fn fixed_names(&self) -> Vec<&'static str> {
        counters().flat_map(|counter| counter.names()).collect()
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let names: Vec<&str> = counters().map(Software::name).collect();
        let ((counter, written), count) =
            parse_counter(spec, self.name(), &names, catalog.script().is_some(), |name| {
                let counter = Software::find(name)?;
                Some(((counter, name.to_owned()), default_count(counter)))
            })?;
        // The event has the name by which it was asked for, of several: `software:cs:1`.
        let name = match spec.parts.len() {
            // A script's, as it is written.
            2 if catalog.script().is_some() => format!("software:{written}"),
            _ => format!("software:{written}:{count}"),
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
