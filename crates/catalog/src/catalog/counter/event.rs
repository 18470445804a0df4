//! Events of counters of any kind: their names, mechanism and description.

use crate::arch;
use crate::attach::{self, Mechanism};
use crate::catalog::kind::{DescribedField, Description, Instance, Resolved, Strategy};
use crate::catalog::lookup::Catalog;
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, ProgramKind};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::number_of;
use kestrel_kernel::perf::Counter;

/// One event of a counter, seen by its only strategy.
pub(super) fn counter_event(
    catalog: &Catalog,
    kind: &'static str,
    name: String,
    counter: impl Into<Counter>,
    period: u64,
    every_cpu: bool,
) -> Resolved {
    // A script's command, or process, is what it samples, with what that forks, as with bpftrace; a clock that ticks on one CPU is of no process.
    let process = catalog.script().and_then(|view| view.command.or(view.process));
    let mechanism = Mechanism::Counter(attach::Counter {
        counter: counter.into(),
        period,
        every_cpu,
        process: process.filter(|_| every_cpu),
    });
    counter_event_by(catalog, kind, name, mechanism)
}

/// One event of a counter that is attached by this mechanism.
pub(super) fn counter_event_by(
    catalog: &Catalog,
    kind: &'static str,
    name: String,
    mechanism: Mechanism,
) -> Resolved {
    let program = ProgramKind::PerfEvent;
    let strategy = Strategy::new(
        mechanism,
        Context {
            types: catalog.types().ok(),
            // `struct bpf_perf_event_data` begins with them.
            registers: arch::registers(0),
            features: catalog.features(program),
            // The kernel calls it out of an interrupt.
            preemptible: false,
            ..Context::new(name.clone(), program)
        },
    );
    Resolved {
        kind,
        instances: vec![Instance::named(name)],
        strategies: vec![strategy],
        members: Vec::new(),
    }
}

/// Parses `KIND:NAME` or `KIND:NAME:COUNT` as a counter and its sample period; `find` gives the counter of a name and its default period.
///
/// # Errors
/// An error with the shape of such names and the counters' names.
pub(super) fn parse_counter<T>(
    spec: &EventSpec,
    kind: &str,
    names: &[&str],
    is_script: bool,
    find: impl Fn(&str) -> Option<(T, u64)>,
) -> Result<(T, u64)> {
    let shape = || {
        let names = names.join(", ");
        let shape = format!("{kind}:NAME or {kind}:NAME:COUNT, with a name of {names}");
        Error::wrong_shape(spec, &shape)
    };
    let (name, count) = match &spec.parts[1..] {
        [name] => (name, None),
        [name, count] => (name, Some(count)),
        _ => return Err(shape()),
    };
    let (counter, usual) = find(&name.text).ok_or_else(shape)?;
    let count = match count {
        None => usual,
        // As in bpftrace, an exponent in a script's count is 1 or more.
        Some(count)
            if is_script
                && !count.text.starts_with("0x")
                && ["e0", "E0"].iter().any(|none| count.text.contains(none)) =>
        {
            return Err(shape());
        }
        Some(count) => match number_of(&count.text).ok_or_else(shape)? {
            // `software:cs:0` in bpftrace: the kind's own period.
            0 if is_script => usual,
            count => count,
        },
    };
    match count == 0 || count > i64::MAX as u64 {
        true => Err(shape()),
        false => Ok((counter, count)),
    }
}

/// Description without fields beside those that every record has.
pub(super) fn no_fields() -> Description {
    Description {
        fields: Vec::<DescribedField>::new(),
        returns: None,
    }
}
