//! Functions and instructions of programs and libraries: `uprobe:PATH:FUNCTION[+OFFSET]`, `uprobe:PATH:0xADDRESS`, and returns by `uretprobe`.

use super::function::arguments;
use super::glob::Glob;
use super::kind::{Description, EventKind, HelperHook, HelperHooks, Instance, Resolved, Strategy, Via};
use super::lookup::Catalog;
use super::spec::text_of;
use crate::arch;
use crate::attach::{Mechanism, Uprobes};
use crate::code::starts;
use crate::error::{Error, Result};
use crate::executable::language::Language;
use crate::executable::{self, Executable, Function, Site};
use kestrel_compiler::context::{
    Context, EventField, EventNumber, Features, Pair, ProgramKind, Source, ValueType,
};
use kestrel_compiler::lang::ast::{EventPart, EventSpec};
use kestrel_trace::layout::{Base, Space};
use std::collections::HashMap;
use std::sync::Arc;

/// `uprobe` or `uretprobe`.
#[derive(Debug)]
pub(super) struct UserProbe {
    name: &'static str,
    aliases: &'static [&'static str],
    at_return: bool,
}

/// A function's entry, or any instruction.
pub(super) const UPROBE: UserProbe = UserProbe {
    name: "uprobe",
    aliases: &["u"],
    at_return: false,
};
/// A function's return.
pub(super) const URETPROBE: UserProbe = UserProbe {
    name: "uretprobe",
    aliases: &["ur"],
    at_return: true,
};

/// What one event's name asks for.
struct LocationSpec<'s> {
    path: &'s str,
    language: Option<Language>,
    place: &'s EventPart,
}

impl UserProbe {
    fn wanted<'s>(&self, spec: &'s EventSpec) -> Result<LocationSpec<'s>> {
        let wanted = match spec.parts.as_slice() {
            [_, path, place] => Some((path, None, place)),
            [_, path, word, place] => Language::of(&word.text).map(|language| (path, Some(language), place)),
            _ => None,
        };
        let (path, language, place) = wanted.ok_or_else(|| {
            let shape = match self.at_return {
                true => "uretprobe:PATH:FUNCTION or uretprobe:PATH:cpp:FUNCTION (rust:FUNCTION)",
                false => {
                    "uprobe:PATH:FUNCTION, uprobe:PATH:FUNCTION+OFFSET, uprobe:PATH:0xADDRESS or uprobe:PATH:cpp:FUNCTION (rust:FUNCTION)"
                }
            };
            Error::wrong_shape(spec, shape)
        })?;
        Ok(LocationSpec {
            path: &path.text,
            language,
            place,
        })
    }

    /// One event at a place, whatever number of functions have that name.
    fn one(&self, catalog: &Catalog, file: &Executable, site: &Site) -> Result<Resolved> {
        let offsets = site.offsets(file)?;
        for offset in &offsets {
            self.check(file, site, *offset)?;
        }
        let (name, function) = match site {
            Site::Function { name, .. } => (site.to_string(), Some(name.clone())),
            Site::Address(_) => {
                let known = offsets.first().and_then(|offset| file.function_at(*offset));
                (site.to_string(), known.map(|known| known.name.clone()))
            }
        };
        let mut way = self.way(catalog, file, EventNumber::Constant(0), &name);
        way.context.function = function;
        way.context.remarks = remarks(file, &offsets);
        Ok(Resolved {
            kind: self.name,
            instances: vec![self.instance(file, &name, offsets.first().copied())],
            ways: vec![way],
            apart: Vec::new(),
        })
    }

    /// Many functions of one file, by the names behind its path.
    fn many(&self, catalog: &Catalog, file: &Executable, names: &[(String, Option<u64>)]) -> Resolved {
        let instances = names
            .iter()
            .map(|(name, offset)| self.instance(file, name, *offset));
        let number = EventNumber::Cookie { first: 0, stride: 1 };
        Resolved {
            kind: self.name,
            instances: instances.collect(),
            ways: vec![self.way(catalog, file, number, "*")],
            apart: Vec::new(),
        }
    }

    fn instance(&self, file: &Executable, name: &str, offset: Option<u64>) -> Instance {
        let path = file.path().display();
        Instance {
            symbol: Some(name.to_owned()),
            // Several names of one function are one event.
            identity: offset.map(|offset| format!("{path}:{offset:#x}")),
            ..Instance::named(format!("{}:{path}:{name}", self.name))
        }
    }

    fn way(&self, catalog: &Catalog, file: &Executable, number: EventNumber, name: &str) -> Strategy {
        let path = file.path();
        let mechanism = |at_return| {
            Mechanism::Uprobes(Uprobes {
                path: path.to_owned(),
                at_return,
            })
        };
        let shown = format!("{}:{}:{name}", self.name, path.display());
        let mut context = self.context(catalog, shown, number);
        // A return belongs to the entry of the same call: by the place of the return address in the stack.
        let companions = self.at_return.then(|| {
            let entry = format!("{}:{}:{name}", UPROBE.name, path.display());
            context.pair = Some(Arc::new(Pair {
                first: UPROBE.context(catalog, entry, number),
                first_key: "reg(\"sp\")".to_owned(),
                key: format!("reg(\"sp\") - {}", arch::current().return_slot),
                always: false,
                aborted: None,
            }));
            HelperHooks {
                first: HelperHook {
                    mechanism: mechanism(false),
                    label: "entry",
                    symbol: None,
                },
                aborted: None,
            }
        });
        Strategy {
            mechanism: mechanism(self.at_return),
            context,
            guard: None,
            companions,
        }
    }

    pub(super) fn context(&self, catalog: &Catalog, name: String, number: EventNumber) -> Context {
        let program = match self.at_return {
            true => ProgramKind::Kretprobe,
            false => ProgramKind::Kprobe,
        };
        Context {
            name,
            function: None,
            program,
            number,
            selector: None,
            members: [].into(),
            fields: Vec::new(),
            arguments: if self.at_return { Vec::new() } else { arguments() },
            return_value: self.at_return.then(|| EventField {
                name: "retval".to_owned(),
                ty: ValueType::Integer {
                    size: 8,
                    signed: true,
                    base: Base::Decimal,
                },
                source: Source::Register {
                    offset: arch::current().return_value,
                },
                recorded: true,
            }),
            registers: arch::registers(0),
            remarks: Vec::new(),
            pair: None,
            types: catalog.types().ok(),
            features: Features {
                func_ip: false,
                ..catalog.features(program)
            },
            direct_loads: false,
            space: Space::User,
            preemptible: true,
        }
    }

    /// Refuses a place inside of an instruction: the breakpoint would make another one of it, and the program would do something else.
    fn check(&self, file: &Executable, site: &Site, offset: u64) -> Result<()> {
        let no_place = |why: String| Error::Object {
            object: format!("{}:{}:{site}", self.name, file.path().display()),
            why,
        };
        let begins = matches!(site, Site::Function { offset: 0, .. });
        if begins {
            return Ok(());
        }
        if self.at_return {
            return Err(no_place(
                "a return is that of a whole function: name it without an offset".to_owned(),
            ));
        }
        let Some(function) = file.function_at(offset).filter(|f| f.size > 0) else {
            return Err(no_place(
                "no function is known there, so that it is not known where its instructions begin".to_owned(),
            ));
        };
        let bytes = file.bytes(function.offset, function.size as usize)?;
        let starts = starts(&bytes);
        let wanted = (offset - function.offset) as usize;
        match starts.binary_search(&wanted) {
            Ok(_) => Ok(()),
            Err(after) => {
                let near = starts[after.saturating_sub(2)..(after + 2).min(starts.len())].iter();
                let near: Vec<String> = near.map(|at| format!("+{at:#x}")).collect();
                Err(no_place(format!(
                    "no instruction begins there; near it some do at {} of the function",
                    near.join(", ")
                )))
            }
        }
    }

    /// Functions that match, each place once by its plainest name, with where they lie.
    fn matching(file: &Executable, language: Option<Language>, pattern: &Glob) -> Vec<(String, Option<u64>)> {
        let mut places: HashMap<u64, String> = HashMap::new();
        for (function, name) in file.named(language, &|name| pattern.matches(name)) {
            let plainness = |name: &str| (name.starts_with('_'), name.len(), name.to_owned());
            let known = places.entry(function.offset).or_insert_with(|| name.clone());
            if plainness(&name) < plainness(known) {
                *known = name;
            }
        }
        let named = |(offset, name)| {
            let site = Site::Function {
                language,
                name,
                offset: 0,
            };
            (site.to_string(), Some(offset))
        };
        let mut all: Vec<_> = places.into_iter().map(named).collect();
        all.sort();
        // Functions of one name are one event at several places.
        all.dedup_by(|one, other| one.0 == other.0);
        all
    }
}

/// Remarks about the functions at these offsets: an indirect one runs once, not with each call.
fn remarks(file: &Executable, offsets: &[u64]) -> Vec<String> {
    let is_indirect = |f: &&Function| offsets.contains(&f.offset) && f.indirect;
    let mut indirect = file.functions().iter().filter(is_indirect);
    let named = indirect.next().map(|function| {
        let name = &function.name;
        format!(
            "{name} is an indirect function (IFUNC): the loader calls it once to choose what callers get, and that one has a name of its own; `kestrel list 'uprobe:{}:*{name}*'`",
            file.path().display()
        )
    });
    named.into_iter().collect()
}

impl EventKind for UserProbe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    /// There are as many as there are files.
    fn listed(&self) -> bool {
        false
    }

    fn parts(&self) -> usize {
        2
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let [path, pattern] = patterns else {
            return Ok(());
        };
        let file = catalog.executables().get(&executable::find(path.text())?)?;
        for (name, _) in Self::matching(&file, None, pattern) {
            found(&format!("{}:{name}", file.path().display()));
        }
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(Description::default())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let wanted = self.wanted(spec)?;
        let place = wanted.place;
        let file = catalog.executables().get(&executable::find(wanted.path)?)?;
        let pattern = Glob::new(&place.text);
        if pattern.is_plain() {
            let site = match Site::read(&place.text) {
                Site::Address(address) if wanted.language.is_none() => {
                    Site::Address(address.saturating_add(place.offset.unwrap_or(0)))
                }
                _ => Site::Function {
                    language: wanted.language,
                    name: place.text.clone(),
                    offset: place.offset.unwrap_or(0),
                },
            };
            return Ok(vec![self.one(catalog, &file, &site)?]);
        }
        if place.offset.is_some() {
            return Err(Error::WrongShape {
                wanted: text_of(spec),
                shape: "a function's name without a pattern where an offset stands behind it".to_owned(),
            });
        }
        let names = Self::matching(&file, wanted.language, &pattern);
        match names.as_slice() {
            [] => Err(file.no_function(&place.text, wanted.language)),
            [(name, _)] => Ok(vec![self.one(catalog, &file, &Site::read(name))?]),
            _ => Ok(vec![self.many(catalog, &file, &names)]),
        }
    }

    fn set(&self, catalog: &Catalog, names: &[String], _via: Via) -> Result<Option<Resolved>> {
        let paths = names.iter().map(|name| self.split(name));
        let Some(split) = paths.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let Some((path, _)) = split.first() else {
            return Ok(None);
        };
        if split.iter().any(|(other, _)| other != path) {
            return Ok(None);
        }
        let file = catalog.executables().get(path.as_ref())?;
        let named = split.iter().map(|(_, name)| {
            let offsets = Site::read(name).offsets(&file)?;
            Ok(((*name).to_owned(), offsets.first().copied()))
        });
        let named: Vec<_> = named.collect::<Result<_>>()?;
        Ok(Some(self.many(catalog, &file, &named)))
    }
}

impl UserProbe {
    /// An event's name as the path and what stands behind it.
    fn split<'n>(&self, name: &'n str) -> Option<(&'n str, &'n str)> {
        let rest = name.strip_prefix(self.name)?.strip_prefix(':')?;
        rest.split_once(':')
    }
}
