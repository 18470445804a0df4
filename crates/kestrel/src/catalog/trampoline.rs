//! Kernel functions by BPF trampoline: `fentry` and `fexit`, with arguments and result typed and read directly.

use super::function::{describe, parameters, return_type};
use super::kind::{Attachment, Description, EventKind, Instance, Resolved, Via, Way};
use super::{Catalog, Glob};
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, EventField, EventNumber, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;

/// `fentry` or `fexit`.
#[derive(Debug)]
pub(super) struct Trampoline {
    name: &'static str,
    aliases: &'static [&'static str],
    at_return: bool,
}

/// A function's entry.
pub(super) const FENTRY: Trampoline = Trampoline {
    name: "fentry",
    aliases: &["f", "kfunc"],
    at_return: false,
};
/// A function's return.
pub(super) const FEXIT: Trampoline = Trampoline {
    name: "fexit",
    aliases: &["fr", "kretfunc"],
    at_return: true,
};

impl EventKind for Trampoline {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn listed(&self) -> bool {
        !self.at_return
    }

    fn parts(&self) -> usize {
        1
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let types = catalog.types()?;
        let functions = catalog.functions().map_err(|error| Error::Unsupported {
            what: format!("{} on functions", self.name),
            why: format!("this kernel does not list what ftrace can hook: {error}"),
        })?;
        if let Some(plain) = patterns.first().filter(|p| p.is_plain()) {
            if functions.has(plain.text()) && types.function(plain.text()).is_some() {
                found(plain.text());
            }
            return Ok(());
        }
        let typed: std::collections::HashSet<&str> = types.functions().map(|f| f.name).collect();
        functions
            .names()
            .filter(|name| patterns.first().is_none_or(|p| p.matches(name)) && typed.contains(name))
            .for_each(found);
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        describe(catalog, name, self.at_return)
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let [part] = &spec.parts[1..] else {
            return Err(Error::wrong_shape(spec, &format!("{}:FUNCTION", self.name)));
        };
        let names = catalog.expand(self, &[Glob::new(&part.text)])?;
        names.iter().map(|name| self.resolve_one(catalog, name)).collect()
    }
}

impl Trampoline {
    pub(super) fn resolve_one(&self, catalog: &Catalog, name: &str) -> Result<Resolved> {
        let types = catalog.types()?;
        let function = types.function(name).ok_or_else(|| Error::Unsupported {
            what: format!("{}:{name}", self.name),
            why: "the kernel's types (BTF) do not describe this function".to_owned(),
        })?;
        let typed = parameters(&types, &function);
        let all = function.proto.parameters().count();
        let fields: Vec<EventField> = typed
            .iter()
            .enumerate()
            .map(|(index, (name, ty))| EventField {
                name: name.clone(),
                ty: ValueType::Btf(*ty),
                source: Source::Argument {
                    index: index as u32,
                    trusted: true,
                },
                recorded: true,
            })
            .collect();
        let return_value = self.at_return.then(|| return_type(&types, &function)).flatten();
        let program = if self.at_return {
            ProgramKind::Fexit
        } else {
            ProgramKind::Fentry
        };
        let ways = [true, false].map(|direct| Way {
            attachment: Attachment::Trampoline {
                function: name.to_owned(),
                id: function.id,
                at_return: self.at_return,
            },
            context: Context {
                name: format!("{}:{name}", self.name),
                function: Some(name.to_owned()),
                program,
                number: EventNumber::Constant(0),
                selector: None,
                members: [].into(),
                arguments: (0..fields.len() as u32)
                    .map(|index| Source::Argument { index, trusted: true })
                    .collect(),
                fields: fields.clone(),
                return_value: return_value.map(|ty| EventField {
                    name: "retval".to_owned(),
                    ty: ValueType::Btf(ty),
                    source: Source::Argument {
                        index: all as u32,
                        trusted: true,
                    },
                    recorded: true,
                }),
                types: Some(types.clone()),
                registers: Vec::new(),
                remarks: Vec::new(),
                pair: None,
                features: catalog.features(program),
                direct_loads: direct,
                preemptible: true,
            },
            guard: None,
            companions: None,
        });
        Ok(Resolved {
            kind: self.name,
            instances: vec![Instance::function(self.name, name)],
            ways: ways.into(),
            apart: Vec::new(),
        })
    }
}
