//! `jprobe`: a function's call with every parameter by name and type, as its own code sees it; by trampoline where that can be, else by kprobe.

use super::function::{KPROBE, Parameter, ParameterHome, describe, no_kprobes, parameters};
use super::glob::Glob;
use super::kind::{Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use super::spec::text_of;
use super::trampoline::FENTRY;
use super::typed::qualified;
use crate::attach::{self, Mechanism};
use crate::code::LocationSpec;
use crate::error::{Error, Result};
use kestrel_bpf::btf::{Btf, Function, Type};
use kestrel_compiler::context::{Context, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind;

/// The kind `jprobe`.
#[derive(Debug)]
pub(super) struct Jprobe;

const ROW: KindRow = KindRow {
    listed: false,
    joins_handlers: false,
    ..KindRow::new(event_kind::JPROBE, 1)
};

/// The name of the kind, which printers know, too.
pub const NAME: &str = kestrel_trace::export::CALLS;

/// Parameters of these names are directories by number, of which one has a name.
const DIRECTORIES: &[&str] = &["dfd", "dirfd", "olddfd", "newdfd"];
/// `AT_FDCWD` of `uapi/linux/fcntl.h`.
const CURRENT_DIRECTORY: (i64, &str) = (-100, "AT_FDCWD");

/// Suffixes that the compiler puts behind the name of a copy of a function that takes other parameters.
const COPIES: &[&str] = &[".isra.", ".constprop."];

impl EventKind for Jprobe {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let types = catalog.types()?;
        let typed = &mut |name: &str| {
            if types.function(name).is_some() || catalog.typed_function(None, name).is_ok() {
                found(name);
            }
        };
        KPROBE.names(catalog, patterns, typed)
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        describe(catalog, name, false)
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let (module, part) = match &spec.parts[1..] {
            [part] => (None, part),
            [module, part] if module.offset.is_none() && Glob::new(&module.text).is_plain() => {
                (Some(module.text.as_str()), part)
            }
            _ => {
                return Err(Error::wrong_shape(
                    spec,
                    "jprobe:FUNCTION or jprobe:MODULE:FUNCTION",
                ));
            }
        };
        if part.offset.is_some() {
            return Err(Error::wrong_shape(
                spec,
                "jprobe:FUNCTION: a function has its parameters at its entry only",
            ));
        }
        if !catalog.has_kprobes() {
            return Err(no_kprobes(&text_of(spec)));
        }
        let pattern = Glob::new(&part.text);
        if pattern.is_plain() {
            return self.one(catalog, module, &part.text).map(|one| vec![one]);
        }
        // Of many, those are taken whose parameters are known.
        let names = match module {
            None => catalog.expand(self, &[pattern])?,
            Some(module) => {
                let found = catalog.functions_of(&Glob::new(module), &pattern)?.into_iter();
                found.map(|(_, name)| name).collect()
            }
        };
        let mut all = Vec::new();
        let mut refused = None;
        for name in names {
            match self.one(catalog, module, &name) {
                Ok(one) => all.push(one),
                Err(why) => refused = Some(why),
            }
        }
        match (all.is_empty(), refused) {
            (true, Some(why)) => Err(why),
            _ => Ok(all),
        }
    }
}

impl Jprobe {
    fn one(&self, catalog: &Catalog, module: Option<&str>, name: &str) -> Result<Resolved> {
        let text = qualified(module, name);
        let refused = |why: String| Error::Unsupported {
            what: format!("{NAME}:{text}"),
            why,
        };
        let copies = copies(catalog, name);
        if !copies.is_empty() && !catalog.is_function(name) {
            return Err(refused(format!(
                "the compiler made it into {}, which takes other parameters than the source says; kprobe:{} sees its registers",
                copies.join(", "),
                copies[0]
            )));
        }
        if !catalog.is_function(name) {
            // Says which names are near.
            catalog.expand(self, &[Glob::new(name)])?;
        }
        let typed = catalog
            .typed_function(module, name)
            .map_err(|error| match error {
                Error::Unsupported { why, .. } => refused(why),
                other => other,
            })?;
        let (types, function) = (&typed.types, typed.function()?);
        if let Some(hidden) = hidden(types, &function) {
            return Err(refused(format!(
                "where its parameter {hidden} lies is not known; kprobe:{text} has those before it as arg0 and so on"
            )));
        }
        let remarks: Vec<String> = copies
            .iter()
            .map(|copy| format!("calls that the compiler made to {copy}, a copy of {name}, are not seen"))
            .collect();
        let mut strategies = Vec::new();
        // A trampoline keeps a module from being unloaded, which a kprobe does not.
        let in_registers = |parameter: &Parameter| matches!(parameter.held, ParameterHome::Registers { .. });
        if typed.module.is_none()
            && parameters(types, &function).iter().all(in_registers)
            && catalog.functions().is_ok()
            && let Ok(trampoline) = FENTRY.resolve_one(catalog, None, name)
        {
            strategies.extend(trampoline.strategies);
        }
        match &typed.module {
            None => strategies.push(Strategy::new(
                Mechanism::Functions(attach::Functions {
                    at_return: false,
                    alone: true,
                    maxactive: None,
                }),
                KPROBE.context(catalog, Some(name)),
            )),
            Some(own) => {
                let wanted = LocationSpec::new(Some(own), name, None);
                let wanted = wanted.ok_or_else(|| refused("it has no name of a function".to_owned()))?;
                strategies.extend(KPROBE.instruction(catalog, &wanted, None)?.strategies);
            }
        }
        for strategy in &mut strategies {
            named(&mut strategy.context, types, &text, &remarks);
        }
        let event = Instance {
            symbol: Some(name.to_owned()),
            ..Instance::named(format!("{NAME}:{text}"))
        };
        Ok(Resolved {
            kind: NAME,
            instances: vec![Instance {
                identity: Some(catalog.canonical_name(&event.name)),
                ..event
            }],
            strategies,
            members: Vec::new(),
        })
    }
}

fn named(context: &mut Context, types: &Btf, name: &str, remarks: &[String]) {
    context.name = format!("{NAME}:{name}");
    context.remarks = remarks.to_vec();
    for field in &mut context.fields {
        let ValueType::Btf(id) = field.ty else { continue };
        let number = matches!(types.resolved(id), Type::Int(_)) && types.size_of(id) == Some(4);
        if number && DIRECTORIES.contains(&field.name.as_str()) {
            let (value, text) = CURRENT_DIRECTORY;
            field.ty = ValueType::Enumeration {
                size: 4,
                signed: true,
                names: [(value, text.to_owned())].into(),
            };
        }
    }
}

/// The first parameter of which it is not known where it lies.
fn hidden(types: &Btf, function: &Function<'_>) -> Option<String> {
    let known = parameters(types, function).len();
    // A value without bytes is not passed.
    let mut passed = function
        .proto
        .parameters()
        .filter(|parameter| types.size_of(parameter.ty) != Some(0));
    let next = passed.nth(known)?;
    Some(format!("{} ({})", next.name, types.render(next.ty)))
}

/// Copies that the compiler made of a function, with other parameters.
fn copies(catalog: &Catalog, name: &str) -> Vec<String> {
    let Ok(symbols) = catalog.symbols() else {
        return Vec::new();
    };
    let copy = |symbol: &str| {
        let rest = symbol.strip_prefix(name)?;
        let other = COPIES.iter().any(|mark| rest.starts_with(mark));
        // Of a copy, too, the unlikely part may stand apart.
        (other && !rest.ends_with(".cold")).then(|| symbol.to_owned())
    };
    let mut found: Vec<String> = symbols.functions().filter_map(|s| copy(s.name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Error about a second jprobe on a function.
pub fn second(first: &Instance) -> Error {
    Error::SecondJprobe {
        event: first.name.clone(),
        function: first.symbol.clone().unwrap_or_else(|| "FUNCTION".to_owned()),
    }
}
