//! Resolution of one tracepoint into strategies: its raw arguments where a rule or its system call has the fields, and its formatted entry.

use super::super::kind::{Instance, Resolved, Strategy, Via};
use super::super::lookup::Catalog;
use super::{classic, raw, rules, syscall};
use crate::attach::{self, Mechanism};
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, ProgramKind};
use kestrel_kernel::tracefs::Format;

/// Group and name of a tracepoint.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, ""))
}

/// One tracepoint with all strategies to see it.
pub(super) fn resolve_one(catalog: &Catalog, full: &str, via: Via) -> Result<Resolved> {
    let (group, name) = split(full);
    let format = catalog.tracefs()?.format(group, name)?;
    let mut strategies = Vec::new();
    if via != Via::Classic {
        let rules = rules::of(full, name);
        strategies = rules
            .flat_map(|rule| raw::strategies(catalog, full, &format, &rule))
            .collect();
        if strategies.is_empty() {
            strategies = syscall::strategies(catalog, group, name, &format, via);
        }
    }
    if via == Via::Raw && strategies.is_empty() {
        return Err(Error::Unsupported {
            what: format!("reading {full} raw"),
            why: "there is no rule for its fields on this kernel; leave out --via".to_owned(),
        });
    }
    if via != Via::Raw {
        strategies.push(classic_strategy(catalog, group, name, &format));
    }
    Ok(Resolved {
        kind: "tracepoint",
        instances: vec![Instance::named(full)],
        strategies,
        members: Vec::new(),
    })
}

fn classic_strategy(catalog: &Catalog, group: &str, name: &str, format: &Format) -> Strategy {
    Strategy::new(
        Mechanism::Tracepoint(attach::Tracepoint {
            group: group.to_owned(),
            name: name.to_owned(),
        }),
        Context {
            fields: classic::fields(format, group == "syscalls"),
            types: catalog.types().ok(),
            features: catalog.features(ProgramKind::Tracepoint),
            direct_loads: true,
            // Those of system calls may fault from 6.13 on, and kernels of 7.x call programs there before they turn preemption off.
            preemptible: group == "syscalls",
            ..Context::new(format!("{group}:{name}"), ProgramKind::Tracepoint)
        },
    )
}
