//! Raw tracepoints: the arguments a tracepoint is called with, typed by BTF, before any entry is formatted.

use super::glob::Glob;
use super::kind::{DescribedField, Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use super::spec::text_of;
use crate::attach::{self, Mechanism};
use crate::code::KERNEL;
use crate::error::{Error, Result, nothing_matches};
use kestrel_bpf::btf::{Btf, BtfKind, Parameter, TypeId};
use kestrel_compiler::context::{Context, EventField, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind;
use std::sync::Arc;

/// The kind `rawtracepoint`.
#[derive(Debug)]
pub(super) struct RawTracepoint;

const ROW: KindRow = KindRow::new(event_kind::RAW_TRACEPOINT, 1);

/// Prefix of the typedef that BTF keeps for each raw tracepoint.
const TYPEDEF: &str = "btf_trace_";
/// Prefix of a function with the same parameters, which bear names.
const NAMED: &str = "__traceiter_";

/// A raw tracepoint as BTF declares it.
pub(super) struct RawTarget {
    pub(super) types: Arc<Btf>,
    pub(super) id: TypeId,
    /// Name and type, without the leading private pointer.
    pub(super) arguments: Vec<(String, TypeId)>,
}

/// Finds a raw tracepoint's types.
pub(super) fn target(catalog: &Catalog, name: &str) -> Option<RawTarget> {
    let types = catalog.types().ok()?;
    let id = types.find(BtfKind::Typedef, &format!("{TYPEDEF}{name}"))?;
    let arguments = types
        .function(&format!("{NAMED}{name}"))
        .map(|f| {
            let named = |(i, p): (usize, Parameter<'_>)| {
                let name = if p.name.is_empty() {
                    format!("arg{i}")
                } else {
                    p.name.to_owned()
                };
                (name, p.ty)
            };
            f.proto.parameters().skip(1).enumerate().map(named).collect()
        })
        .unwrap_or_default();
    Some(RawTarget { types, id, arguments })
}

/// The arguments as fields; `recorded` for the kind itself, not for rules that only compute with them.
pub(super) fn argument_fields(target: &RawTarget, recorded: bool, trusted: bool) -> Vec<EventField> {
    let field = |(index, (name, ty)): (usize, &(String, TypeId))| EventField {
        name: name.clone(),
        ty: ValueType::Btf(*ty),
        source: Source::Argument {
            index: index as u32,
            trusted,
        },
        recorded,
    };
    target.arguments.iter().enumerate().map(field).collect()
}

impl EventKind for RawTracepoint {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let Ok(types) = catalog.types() else { return Ok(()) };
        // Those of modules are not listed: the types of the kernel alone are read.
        let (module, name) = match patterns {
            [module, name] => (Some(module), Some(name)),
            names => (None, names.first()),
        };
        if module.is_some_and(|module| !module.matches(KERNEL)) {
            return Ok(());
        }
        let mut names: Vec<&str> = types
            .ids()
            .filter(|id| types.kind(*id) == Some(BtfKind::Typedef))
            .filter_map(|id| types.name(id).strip_prefix(TYPEDEF))
            .filter(|known| name.is_none_or(|pattern| pattern.matches(known)))
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(found);
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        let target =
            target(catalog, name).ok_or_else(|| nothing_matches("raw tracepoint", name, Vec::new()))?;
        let field = |(name, ty): &(String, TypeId)| DescribedField {
            name: name.clone(),
            ty: target.types.render(*ty),
        };
        Ok(Description {
            fields: target.arguments.iter().map(field).collect(),
            returns: None,
        })
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let part = match &spec.parts[1..] {
            [part] => part,
            // Those that the kernel itself has are the only ones whose types are read.
            [module, part] if Glob::new(&module.text).matches(KERNEL) => part,
            [_, _] => {
                let wanted = text_of(spec);
                let wanted = wanted.split_once(':').map_or("", |(_, name)| name);
                return Err(nothing_matches("rawtracepoint", wanted, Vec::new()));
            }
            _ => return Err(Error::wrong_shape(spec, "rawtracepoint:[MODULE:]NAME")),
        };
        catalog.types()?;
        let names = catalog.expand(self, &[Glob::new(&part.text)])?;
        Ok(names
            .iter()
            .filter_map(|name| resolve_one(catalog, name))
            .collect())
    }
}

fn resolve_one(catalog: &Catalog, name: &str) -> Option<Resolved> {
    let target = target(catalog, name)?;
    let shown = match catalog.script() {
        // As bpftrace's `probe` says it.
        Some(_) => format!("rawtracepoint:{KERNEL}:{name}"),
        None => format!("rawtracepoint:{name}"),
    };
    let strategy = |mechanism, program, trusted, direct| {
        Strategy::new(
            mechanism,
            Context {
                fields: argument_fields(&target, true, trusted),
                arguments: (0..target.arguments.len() as u32)
                    .map(|index| Source::Argument { index, trusted })
                    .collect(),
                types: Some(target.types.clone()),
                features: catalog.features(program),
                direct_loads: direct,
                // Kernels of 7.x call the programs of a tracepoint with preemption on, system-call tracepoints from 6.13 on.
                preemptible: true,
                dispatchers: catalog.dispatchers(name),
                ..Context::new(shown.clone(), program)
            },
        )
    };
    let typed = || {
        Mechanism::TypedTracepoint(attach::TypedTracepoint {
            name: name.to_owned(),
            id: target.id,
        })
    };
    let untyped = Mechanism::RawTracepoint(attach::RawTracepoint {
        name: name.to_owned(),
    });
    let strategies = vec![
        strategy(typed(), ProgramKind::TracingTracepoint, true, true),
        strategy(typed(), ProgramKind::TracingTracepoint, true, false),
        // For arguments that point to something without a structure, as in `tracepoint::raw`.
        strategy(untyped, ProgramKind::RawTracepoint, false, false),
    ];
    Some(Resolved {
        kind: "rawtracepoint",
        instances: vec![Instance::named(shown)],
        strategies,
        members: Vec::new(),
    })
}
