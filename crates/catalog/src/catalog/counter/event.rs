//! One event of a counter, and what people are told of it: the same for all kinds.

use crate::catalog::kind::{Attachment, DescribedField, Description, Instance, Resolved, Way};
use crate::catalog::lookup::Catalog;
use kestrel_compiler::context::{Context, EventNumber, ProgramKind};
use kestrel_kernel::perf::Counter;

/// One event of a counter, seen in the only way there is.
pub(super) fn resolved(
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
pub(super) fn no_fields() -> Description {
    Description {
        fields: Vec::<DescribedField>::new(),
        returns: None,
    }
}
