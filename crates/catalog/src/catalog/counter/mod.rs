//! Events that a clock or a counter of the kernel makes, one in so many: what the kinds share; each kind has its own file.

mod interval;
mod period;
mod profile;
mod software;

use super::Catalog;
use super::kind::{Attachment, DescribedField, Description, EventKind, Instance, Resolved, Way};
use kestrel_compiler::context::{Context, EventNumber, ProgramKind};
use kestrel_kernel::perf::Counter;

/// These kinds.
pub(super) const KINDS: &[&dyn EventKind] =
    &[&interval::Interval, &profile::Profile, &software::SoftwareKind];

/// One event of a counter, seen in the only way there is.
fn resolved(
    catalog: &Catalog,
    kind: &'static str,
    name: String,
    counter: impl Into<Counter>,
    period: u64,
    every_cpu: bool,
) -> Resolved {
    let program = ProgramKind::PerfEvent;
    let way = Way {
        attachment: Attachment::Counter {
            counter: counter.into(),
            period,
            every_cpu,
        },
        context: Context {
            name: name.clone(),
            function: None,
            program,
            number: EventNumber::Constant(0),
            selector: None,
            members: [].into(),
            fields: Vec::new(),
            arguments: Vec::new(),
            return_value: None,
            types: catalog.types().ok(),
            features: catalog.features(program),
            direct_loads: false,
            // The kernel calls it out of an interrupt.
            preemptible: false,
            registers: Vec::new(),
            pair: None,
            remarks: Vec::new(),
        },
        guard: None,
        companions: None,
    };
    Resolved {
        kind,
        instances: vec![Instance::named(name)],
        ways: vec![way],
        apart: Vec::new(),
    }
}

/// They carry nothing but where and when, which every record says.
fn no_fields() -> Description {
    Description {
        fields: Vec::<DescribedField>::new(),
        returns: None,
    }
}
