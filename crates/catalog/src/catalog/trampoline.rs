//! Kernel functions by BPF trampoline: `fentry` and `fexit`, with arguments and result typed and read directly.

use super::bpf_function;
use super::function::{describe, parameters, return_type};
use super::glob::Glob;
use super::kind::{Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use super::spec::text_of;
use super::typed::qualified;
use crate::attach::{self, Mechanism};
use crate::code::KERNEL;
use crate::error::{Error, Result, nothing_matches};
use kestrel_compiler::context::{Context, EventField, Features, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind;

/// `fentry` or `fexit`.
#[derive(Debug)]
pub(super) struct Trampoline {
    row: KindRow,
    at_return: bool,
}

/// A function's entry.
pub(super) const FENTRY: Trampoline = Trampoline {
    row: KindRow::new(event_kind::FENTRY, 1),
    at_return: false,
};
/// A function's return.
pub(super) const FEXIT: Trampoline = Trampoline {
    row: KindRow {
        listed: false,
        ..KindRow::new(event_kind::FEXIT, 1)
    },
    at_return: true,
};

impl EventKind for Trampoline {
    fn row(&self) -> &KindRow {
        &self.row
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        if let [word, .., name] = patterns
            && word.text() == bpf_function::WORD
        {
            let number = patterns.get(1).filter(|_| patterns.len() > 2);
            let programs = bpf_function::find(number.map(Glob::text), name)?;
            programs.iter().for_each(|function| found(&function.text()));
            return Ok(());
        }
        if let [module, pattern] = patterns {
            catalog.names_in_modules(module, pattern, &mut |name| {
                if let Some((module, function)) = name.split_once(':')
                    && catalog.typed_function(Some(module), function).is_ok()
                {
                    found(name);
                }
            });
            return Ok(());
        }
        let types = catalog.types()?;
        let functions = catalog.functions().map_err(|error| Error::Unsupported {
            what: format!("{} on functions", self.name()),
            why: format!("this kernel does not list what ftrace can hook: {error}"),
        })?;
        if let Some(plain) = patterns.first().filter(|p| p.is_plain()) {
            if functions.has(plain.text()) && catalog.typed_function(None, plain.text()).is_ok() {
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
        if spec.parts.iter().any(|part| part.offset.is_some()) {
            return Err(Error::NoPlace {
                wanted: text_of(spec),
                why: format!(
                    "{} sees whole functions: an instruction within one is kprobe:FUNCTION+OFFSET",
                    self.name()
                ),
            });
        }
        if let [first, .., part] = &spec.parts[1..]
            && first.text == bpf_function::WORD
        {
            return self.of_programs(catalog, spec, &part.text);
        }
        let (module, part) = match &spec.parts[1..] {
            [part] => (None, part),
            [module, part] => (Some(Glob::new(&module.text)), part),
            _ => {
                let shape = format!("{0}:FUNCTION or {0}:MODULE:FUNCTION", self.name());
                return Err(Error::wrong_shape(spec, &shape));
            }
        };
        let pattern = Glob::new(&part.text);
        let is_plain = pattern.is_plain() && module.as_ref().is_none_or(Glob::is_plain);
        let names: Vec<(Option<String>, String)> = match module {
            None => {
                let names = catalog.expand(self, std::slice::from_ref(&pattern))?;
                names.into_iter().map(|name| (None, name)).collect()
            }
            Some(module) if is_plain => vec![(Some(module.text().to_owned()), part.text.clone())],
            Some(module) => {
                let found = catalog.functions_of(&module, &pattern)?.into_iter();
                found.map(|(module, name)| (Some(module), name)).collect()
            }
        };
        let all = names
            .iter()
            .map(|(module, name)| self.resolve_one(catalog, module.as_deref(), name));
        match is_plain {
            true => all.collect(),
            // Of many, those are taken that have types.
            false => {
                let (found, refused): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
                let found: Vec<Resolved> = found.into_iter().flatten().collect();
                match (found.is_empty(), refused.into_iter().next()) {
                    (true, Some(refused)) => refused.map(|one| vec![one]),
                    _ => Ok(found),
                }
            }
        }
    }
}

impl Trampoline {
    /// `bpf:NAME` and `bpf:NUMBER:NAME`: functions of BPF programs that are loaded.
    fn of_programs(&self, catalog: &Catalog, spec: &EventSpec, name: &str) -> Result<Vec<Resolved>> {
        let number = match &spec.parts[2..] {
            [_] => None,
            [number, _] => Some(number.text.as_str()),
            _ => {
                let shape = format!("{0}:bpf:FUNCTION or {0}:bpf:PROGRAM:FUNCTION", self.name());
                return Err(Error::wrong_shape(spec, &shape));
            }
        };
        let found = bpf_function::find(number, &Glob::new(name))?;
        if found.is_empty() {
            let what =
                "function of a loaded BPF program with types (kestrel run -l 'fentry:bpf:*' shows them)";
            return Err(nothing_matches(what, &text_of(spec), Vec::new()));
        }
        let program = match self.at_return {
            true => ProgramKind::Fexit,
            false => ProgramKind::Fentry,
        };
        let resolved = found.into_iter().map(|function| {
            let name = format!("{}:{}", self.name(), function.text());
            let mechanism = Mechanism::Trampoline(attach::Trampoline {
                module: None,
                program: Some(function.program),
                function: function.name.clone(),
                id: function.id,
                at_return: self.at_return,
            });
            let context = Context {
                function: Some(function.name),
                types: catalog.types().ok(),
                // The kernel gives addresses in BPF programs names of their own.
                features: Features {
                    func_ip: false,
                    ..catalog.features(program)
                },
                preemptible: true,
                ..Context::new(name.clone(), program)
            };
            Resolved {
                kind: self.name(),
                instances: vec![Instance::named(name)],
                strategies: vec![Strategy::new(mechanism, context)],
                members: Vec::new(),
            }
        });
        Ok(resolved.collect())
    }

    pub(super) fn resolve_one(
        &self,
        catalog: &Catalog,
        module: Option<&str>,
        name: &str,
    ) -> Result<Resolved> {
        let known = catalog
            .typed_function(module, name)
            .map_err(|error| match error {
                Error::Unsupported { why, .. } => Error::Unsupported {
                    what: format!("{}:{}", self.name(), qualified(module, name)),
                    why,
                },
                other => other,
            })?;
        let (types, function) = (known.types.clone(), known.function()?);
        let text = match (catalog.script(), module) {
            // As bpftrace's `probe` says it.
            (Some(_), _) => qualified(Some(known.module.as_deref().unwrap_or(KERNEL)), name),
            (None, Some(_)) => known.text(),
            (None, None) => name.to_owned(),
        };
        // Each parameter takes as many words of the context as it has.
        let mut next = 0;
        let fields: Vec<EventField> = parameters(&types, &function)
            .into_iter()
            .map(|parameter| {
                let words = next..next + parameter.words as u32;
                next = words.end;
                let word = |index| Source::Argument {
                    index,
                    trusted: !parameter.composite,
                };
                EventField {
                    source: match parameter.composite {
                        true => Source::Words(words.map(word).collect()),
                        false => word(words.start),
                    },
                    name: parameter.name,
                    ty: ValueType::Btf(parameter.ty),
                    recorded: true,
                }
            })
            .collect();
        let words = function
            .proto
            .parameters()
            .map(|p| types.size_of(p.ty).unwrap_or(8).div_ceil(8));
        let all: u64 = words.sum();
        let return_value = self.at_return.then(|| return_type(&types, &function)).flatten();
        let program = if self.at_return {
            ProgramKind::Fexit
        } else {
            ProgramKind::Fentry
        };
        let mut features = catalog.features(program);
        // Programs of the language count by it, as they do at kprobes of the function.
        features.func_ip &= catalog.script().is_some() && catalog.have_unique_addresses(&[name.to_owned()]);
        let strategies = [true, false].map(|direct| {
            Strategy::new(
                Mechanism::Trampoline(attach::Trampoline {
                    module: known.module.clone(),
                    program: None,
                    function: name.to_owned(),
                    id: function.id,
                    at_return: self.at_return,
                }),
                Context {
                    function: Some(name.to_owned()),
                    arguments: (0..next)
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
                    features: features.clone(),
                    direct_loads: direct,
                    preemptible: true,
                    ..Context::new(format!("{}:{text}", self.name()), program)
                },
            )
        });
        Ok(Resolved {
            kind: self.name(),
            instances: vec![Instance {
                symbol: Some(name.to_owned()),
                ..Instance::named(format!("{}:{text}", self.name()))
            }],
            strategies: strategies.into(),
            members: Vec::new(),
        })
    }
}
