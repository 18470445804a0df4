//! `iter`: what the kernel walks for a program once, object by object: its tasks, their files, their memory, the system's BPF programs.
//!
//! An iterator NAME is a function `bpf_iter_NAME` of the kernel's types, whose parameters are what the program is given, and a `struct bpf_iter__NAME` of them.

use super::function::{describe, parameters};
use super::glob::Glob;
use super::kind::{Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use crate::attach::{self, Mechanism};
use crate::error::{Error, Result};
use kestrel_bpf::btf::BtfKind;
use kestrel_compiler::context::{Context, EventField, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::host::BPFFS_PLACE;
use kestrel_trace::event_kind;
use std::path::Path;

/// The kind of events made by BPF iterators.
#[derive(Debug)]
pub(super) struct Iterator;

const ROW: KindRow = KindRow {
    listed: false,
    joins_handlers: false,
    ..KindRow::new(event_kind::ITER, 1)
};

/// Before an iterator's name: its function, and the struct of what a program is given.
const FUNCTION: &str = "bpf_iter_";
const CONTEXT: &str = "bpf_iter__";
/// The shape of its names.
const SHAPE: &str = "iter:NAME, as iter:task, or iter:NAME:PIN, as iter:task:tasks";
/// The file that is read, in the words of the walk's parameters.
const SEQ_FILE: &str = "meta->seq";
/// Iterators that walk one map, which no name of an event says.
const OF_MAPS: &[&str] = &["bpf_map_elem", "bpf_sk_storage_map", "sockmap"];
/// The parameter of every iterator that is about the walk, not about an object.
const ABOUT_THE_WALK: &str = "meta";
/// Iterators that can walk the threads of one process.
const OF_TASKS: &[&str] = &["task", "task_file", "task_vma"];

impl EventKind for Iterator {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let types = catalog.types()?;
        let contexts = types.ids().filter(|id| types.kind(*id) == Some(BtfKind::Struct));
        let mut names: Vec<&str> = contexts
            .filter_map(|id| types.name(id).strip_prefix(CONTEXT))
            // The kernel has `struct bpf_iter__task__safe_trusted` for its verifier.
            .filter(|name| types.function(&format!("{FUNCTION}{name}")).is_some())
            .filter(|name| patterns.first().is_none_or(|pattern| pattern.matches(name)))
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(found);
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        describe(catalog, &format!("{FUNCTION}{name}"), false)
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let (name, pin) = match spec.parts.as_slice() {
            [_, name] => (name, None),
            [_, name, pin] if !pin.text.is_empty() => (name, Some(pin.text.as_str())),
            _ => return Err(Error::wrong_shape(spec, SHAPE)),
        };
        let names = catalog.expand(self, &[Glob::new(&name.text)])?;
        let refused = |why: &str| match pin {
            None => Ok(()),
            Some(pin) => Err(Error::Unsupported {
                what: format!("iter:{}:{pin}", name.text),
                why: why.to_owned(),
            }),
        };
        if catalog.script().is_none() {
            refused("only programs of kestrel run leave iterators pinned")?;
        }
        if names.len() > 1 {
            refused("it is the name of several iterators, and a pin is of one")?;
        }
        names.iter().map(|name| resolve_one(catalog, name, pin)).collect()
    }
}

fn resolve_one(catalog: &Catalog, name: &str, pin: Option<&str>) -> Result<Resolved> {
    let event = match pin {
        None => format!("iter:{name}"),
        Some(pin) => format!("iter:{name}:{pin}"),
    };
    if OF_MAPS.contains(&name) {
        return Err(Error::Unsupported {
            what: event,
            why: "it walks the entries of one map, and the name of an event says none; iter:bpf_map walks all maps".to_owned(),
        });
    }
    let typed = catalog.typed_function(None, &format!("{FUNCTION}{name}"))?;
    if let Some(module) = &typed.module {
        return Err(Error::Unsupported {
            what: event,
            why: format!("it is the module {module}'s, and only the kernel's own iterators are walked"),
        });
    }
    let (types, function) = (typed.types.clone(), typed.function()?);
    let fields: Vec<EventField> = parameters(&types, &function)
        .into_iter()
        .zip(0..)
        .map(|(parameter, index)| EventField {
            recorded: parameter.name != ABOUT_THE_WALK,
            name: parameter.name,
            ty: ValueType::Btf(parameter.ty),
            source: Source::Argument { index, trusted: true },
        })
        .collect();
    // After the last object the kernel calls once more, without one.
    let pointers = fields
        .iter()
        .filter(|field| field.recorded && is_pointer(&types, field));
    let there: Vec<String> = pointers
        .map(|field| format!("args.{} != 0", field.name))
        .collect();
    let process = catalog.script().and_then(|view| view.command.or(view.process));
    let program = ProgramKind::Iterator;
    // The verifier must see that it is the kernel's file.
    let direct: &[bool] = if pin.is_some() { &[true] } else { &[true, false] };
    let strategies = direct.iter().map(|direct| Strategy {
        mechanism: Mechanism::Iterator(attach::Iterator {
            name: name.to_owned(),
            id: function.id,
            process: process.filter(|_| OF_TASKS.contains(&name)),
            // An absolute path is not changed.
            pin: pin.map(|pin| Path::new(BPFFS_PLACE).join(pin)),
        }),
        context: Context {
            fields: fields.clone(),
            types: Some(types.clone()),
            features: catalog.features(program),
            direct_loads: *direct,
            seq_file: pin.map(|_| SEQ_FILE.to_owned()),
            preemptible: true,
            ..Context::new(event.clone(), program)
        },
        guard: (!there.is_empty()).then(|| there.join(" && ")),
        companions: None,
    });
    Ok(Resolved {
        kind: "iter",
        strategies: strategies.collect(),
        instances: vec![Instance::named(event)],
        members: Vec::new(),
    })
}

fn is_pointer(types: &kestrel_bpf::btf::Btf, field: &EventField) -> bool {
    match field.ty {
        ValueType::Btf(id) => types.kind(types.resolve(id)) == Some(BtfKind::Ptr),
        _ => false,
    }
}
