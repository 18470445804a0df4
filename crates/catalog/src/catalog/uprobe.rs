//! Functions and instructions of programs and libraries: `uprobe:PATH:FUNCTION[+OFFSET]`, `uprobe:PATH:0xADDRESS`, and returns by `uretprobe`.

use super::function::arguments;
use super::glob::Glob;
use super::instruction_of_file;
use super::kind::{
    Description, EventKind, HelperHook, HelperHooks, Instance, KindRow, Resolved, Strategy, TypesWanted, Via,
};
use super::lookup::Catalog;
use super::spec::text_of;
use super::user_files::files;
use super::user_types;
use crate::arch;
use crate::attach::{Mechanism, Uprobes};
use crate::debuginfo::Described;
use crate::error::{Error, Result};
use crate::executable::language::Language;
use crate::executable::{self, Executable, Function, Site};
use kestrel_compiler::context::{
    Context, EventField, EventNumber, Features, Pair, ProgramKind, Source, ValueType,
};
use kestrel_compiler::lang::ast::{EventPart, EventSpec};
use kestrel_trace::event_kind::{self, EventKindNames};
use kestrel_trace::layout::{Base, Space};
use std::collections::HashMap;
use std::sync::Arc;

/// `uprobe` or `uretprobe`.
#[derive(Debug)]
pub(super) struct UserProbe {
    row: KindRow,
    at_return: bool,
}

/// A function's entry, or any instruction.
pub(super) const UPROBE: UserProbe = UserProbe {
    row: row(event_kind::UPROBE),
    at_return: false,
};
/// A function's return.
pub(super) const URETPROBE: UserProbe = UserProbe {
    row: row(event_kind::URETPROBE),
    at_return: true,
};

/// The row of one of them: there are as many events as there are files, so that they are not listed.
const fn row(names: EventKindNames) -> KindRow {
    KindRow {
        listed: false,
        ..KindRow::new(names, 2)
    }
}

/// A file, and its path as events show it.
#[derive(Clone, Copy)]
struct Probed<'a> {
    file: &'a Executable,
    path: &'a str,
}

/// Location as an event's name spells it.
struct LocationSpec<'s> {
    path: &'s str,
    language: Option<Language>,
    place: &'s EventPart,
    /// A line of source: `PATH@FILE:LINE`.
    line: Option<Site>,
}

impl UserProbe {
    fn parse_location<'s>(&self, spec: &'s EventSpec) -> Result<LocationSpec<'s>> {
        if let Some((path, line)) = line_of(spec)
            && let Some(place) = spec.parts.last()
        {
            let line = Some(line);
            return Ok(LocationSpec {
                path,
                language: None,
                place,
                line,
            });
        }
        let wanted = match spec.parts.as_slice() {
            [_, path, place] => Some((path, None, place)),
            [_, path, word, place] => Language::of(&word.text).map(|language| (path, Some(language), place)),
            _ => None,
        };
        let (path, language, place) = wanted.ok_or_else(|| {
            let shape = match self.at_return {
                true => "uretprobe:PATH:FUNCTION or uretprobe:PATH:cpp:FUNCTION (rust:FUNCTION)",
                false => {
                    "uprobe:PATH:FUNCTION, uprobe:PATH:FUNCTION+OFFSET, uprobe:PATH:0xADDRESS, uprobe:PATH@FILE:LINE or uprobe:PATH:cpp:FUNCTION (rust:FUNCTION)"
                }
            };
            Error::wrong_shape(spec, shape)
        })?;
        Ok(LocationSpec {
            path: &path.text,
            language,
            place,
            line: None,
        })
    }

    /// The events at a place: in a script one for each function of that name and each address of a line, as in bpftrace.
    fn each(&self, catalog: &Catalog, probed: Probed<'_>, site: &Site) -> Result<Vec<Resolved>> {
        let file = probed.file;
        let sites: Vec<Site> = match site {
            _ if catalog.script().is_none() => Vec::new(),
            Site::Function {
                language: Some(Language::Cpp),
                name,
                offset,
            } => {
                let mut found = file.named(Some(Language::Cpp), &|known| known == name);
                found.sort_by_key(|(function, _)| function.offset);
                found.dedup_by_key(|(function, _)| function.offset);
                let mangled = found.into_iter().map(|(function, _)| Site::Function {
                    language: Some(Language::Cpp),
                    name: function.name.clone(),
                    offset: *offset,
                });
                mangled.collect()
            }
            Site::Line { .. } if !self.at_return => {
                let offsets = site.offsets(file)?;
                let addresses = offsets.into_iter().filter_map(|at| file.address_of(at));
                addresses.map(Site::Address).collect()
            }
            _ => Vec::new(),
        };
        match sites.as_slice() {
            [] => Ok(vec![self.one(catalog, probed, site)?]),
            sites => sites.iter().map(|site| self.one(catalog, probed, site)).collect(),
        }
    }

    /// One event at a place, whatever number of functions have that name.
    fn one(&self, catalog: &Catalog, probed: Probed<'_>, site: &Site) -> Result<Resolved> {
        let file = probed.file;
        let offsets = site.offsets(file)?;
        let mut forced = Vec::new();
        for offset in &offsets {
            if let Err(why) = instruction_of_file::check(file, site, *offset, self.at_return) {
                forced.push(why.forced(catalog, (self.name(), probed.path), file, site)?);
            }
        }
        let (name, function) = match site {
            Site::Function { name, language, .. } => {
                let shown = language.and_then(|language| language.names(name).into_iter().next());
                (site.to_string(), Some(shown.unwrap_or_else(|| name.clone())))
            }
            Site::Address(_) | Site::Line { .. } => {
                let known = offsets.first().and_then(|offset| file.function_at(*offset));
                (site.to_string(), known.map(|known| known.name.clone()))
            }
        };
        let mut strategy = self.strategy(catalog, probed, EventNumber::Constant(0), &name);
        strategy.context.function = function;
        strategy.context.remarks = remarks(file, &offsets);
        strategy.context.remarks.extend(forced);
        Ok(Resolved {
            kind: self.name(),
            instances: vec![self.instance(probed, &name, offsets.first().copied())],
            strategies: vec![strategy],
            members: Vec::new(),
        })
    }

    /// Many functions of one file, by the names behind its path.
    fn many(&self, catalog: &Catalog, probed: Probed<'_>, names: &[(String, Option<u64>)]) -> Resolved {
        let instances = names
            .iter()
            .map(|(name, offset)| self.instance(probed, name, *offset));
        let number = EventNumber::Cookie { first: 0, stride: 1 };
        Resolved {
            kind: self.name(),
            instances: instances.collect(),
            strategies: vec![self.strategy(catalog, probed, number, "*")],
            members: Vec::new(),
        }
    }

    fn instance(&self, probed: Probed<'_>, name: &str, offset: Option<u64>) -> Instance {
        let path = probed.path;
        let file = probed.file.path().display();
        Instance {
            symbol: Some(name.to_owned()),
            // Several names of one function are one event.
            identity: offset.map(|offset| format!("{file}:{offset:#x}")),
            ..Instance::named(format!("{}:{path}:{name}", self.name()))
        }
    }

    fn strategy(&self, catalog: &Catalog, probed: Probed<'_>, number: EventNumber, name: &str) -> Strategy {
        let (path, shown_path) = (probed.file.path(), probed.path);
        let mechanism = |at_return| {
            Mechanism::Uprobes(Uprobes {
                path: path.to_owned(),
                at_return,
            })
        };
        let shown = format!("{}:{shown_path}:{name}", self.name());
        let mut context = self.context(catalog, shown, number);
        // A return belongs to the entry of the same call: by the place of the return address in the stack.
        let companions = self.at_return.then(|| {
            let entry = format!("{}:{shown_path}:{name}", UPROBE.name());
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
            number,
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
            types: catalog.types().ok(),
            features: Features {
                func_ip: false,
                ..catalog.features(program)
            },
            space: Space::User,
            preemptible: true,
            ..Context::new(name, program)
        }
    }

    /// Resolves a name in one file.
    fn in_file(
        &self,
        catalog: &Catalog,
        probed: Probed<'_>,
        wanted: &LocationSpec<'_>,
        spec: &EventSpec,
    ) -> Result<Vec<Resolved>> {
        let (place, file) = (wanted.place, probed.file);
        if self.at_return && place.offset.is_some() {
            let shape = "uretprobe:PATH:FUNCTION: an offset is not allowed where a function returns";
            return Err(Error::wrong_shape(spec, shape));
        }
        if let Some(line) = &wanted.line {
            return self.each(catalog, probed, line);
        }
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
            return self.each(catalog, probed, &site);
        }
        if place.offset.is_some() {
            return Err(Error::WrongShape {
                wanted: text_of(spec),
                shape: "a function's name without a pattern where an offset stands behind it".to_owned(),
            });
        }
        let names = Self::matching(file, wanted.language, &pattern, catalog.script().is_some());
        match names.as_slice() {
            [] => Err(file.no_function(&place.text, wanted.language)),
            [(name, _)] => Ok(vec![self.one(catalog, probed, &Site::read(name))?]),
            _ => Ok(vec![self.many(catalog, probed, &names)]),
        }
    }

    /// Functions that match, each place once by its plainest name, with where they lie; those of C++ by the linker's names where these are wanted.
    fn matching(
        file: &Executable,
        language: Option<Language>,
        pattern: &Glob,
        mangled: bool,
    ) -> Vec<(String, Option<u64>)> {
        let mut places: HashMap<u64, String> = HashMap::new();
        let mangled = mangled && language == Some(Language::Cpp);
        for (function, name) in file.named(language, &|name| pattern.matches(name)) {
            let name = if mangled { function.name.clone() } else { name };
            let plainness = |name: &str| (name.starts_with('_'), name.len(), name.to_owned());
            let known = places.entry(function.offset).or_insert_with(|| name.clone());
            if plainness(&name) < plainness(known) {
                *known = name;
            }
        }
        let named = |(offset, name)| (function_site(language, name), Some(offset));
        let mut all: Vec<_> = places.into_iter().map(named).collect();
        all.sort_unstable();
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

/// Whether a kind is of returns from functions; `None` where it is neither of functions nor of their returns.
pub(super) fn is_return(kind: &str) -> Option<bool> {
    [UPROBE, URETPROBE]
        .iter()
        .find(|known| known.name() == kind)
        .map(|known| known.at_return)
}

/// The place of a function's entry, as events spell it.
fn function_site(language: Option<Language>, name: String) -> String {
    let offset = 0;
    Site::Function {
        language,
        name,
        offset,
    }
    .to_string()
}

impl EventKind for UserProbe {
    fn row(&self) -> &KindRow {
        &self.row
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let (path, pattern) = match patterns {
            [path, pattern] => (path.text(), pattern.clone()),
            // All that a process runs.
            [] if catalog.script().is_some_and(|view| view.process.is_some()) => ("*", Glob::new("*")),
            _ => return Ok(()),
        };
        let is_pattern = !Glob::new(path).is_plain();
        for path in files(catalog, path)? {
            let file = match catalog.executables().get(path.as_ref()) {
                Ok(file) => file,
                // Of many files some are gone or no programs.
                Err(_) if is_pattern => continue,
                Err(error) => return Err(error),
            };
            let names = file.named(None, &|name| pattern.matches(name)).into_iter();
            // A function has all of its names here: each can be probed.
            let mut names: Vec<String> = names.map(|(_, name)| function_site(None, name)).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                found(&format!("{path}:{name}"));
            }
        }
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        let Some((path, place)) = name.split_once(':') else {
            return Ok(Description::default());
        };
        let file = catalog.executables().get(&executable::find(path)?)?;
        let addresses = entries(&file, &Site::read(place));
        let known = file.debug_info().and_then(|info| info.describe(None, &addresses));
        let signature = known.as_ref().and_then(|known| known.functions.values().next());
        let returned = || signature.map(|signature| signature.returned.clone());
        Ok(match self.at_return {
            true => Description {
                fields: Vec::new(),
                returns: returned(),
            },
            false => Description {
                fields: signature.map_or_else(Vec::new, user_types::described),
                returns: None,
            },
        })
    }

    fn add_types(&self, catalog: &Catalog, wanted: TypesWanted, events: &mut Resolved) {
        self.typed(catalog, wanted, events);
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let wanted = self.parse_location(spec)?;
        let paths = files(catalog, wanted.path)?;
        let is_pattern = !Glob::new(wanted.path).is_plain();
        let (mut all, mut refused) = (Vec::new(), None);
        for path in &paths {
            let found = catalog.executables().get(path.as_ref());
            let found = found.and_then(|file| {
                let probed = Probed { file: &file, path };
                self.in_file(catalog, probed, &wanted, spec)
            });
            match found {
                Ok(found) => all.extend(found),
                // Of many files some do not have it.
                Err(error) if is_pattern => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (all.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(all),
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
        let probed = Probed { file: &file, path };
        Ok(Some(self.many(catalog, probed, &named)))
    }
}

/// The path and the line of source that an event's name has: `PATH@FILE:LINE[:COLUMN]`, `PATH:FILE:LINE`.
fn line_of(spec: &EventSpec) -> Option<(&str, Site)> {
    let [_, path, rest @ ..] = spec.parts.as_slice() else {
        return None;
    };
    let number = |part: &EventPart| part.text.parse::<u64>().ok().filter(|_| part.offset.is_none());
    let site = |file: &str, line, column| Site::Line {
        file: file.to_owned(),
        line,
        column,
    };
    let (path, source) = match path.text.rsplit_once('@') {
        Some((path, file)) if !path.is_empty() && !file.is_empty() => (path, Some(file)),
        _ => (path.text.as_str(), None),
    };
    match (source, rest) {
        (Some(file), [line]) => Some((path, site(file, number(line)?, None))),
        (Some(file), [line, column]) => Some((path, site(file, number(line)?, Some(number(column)?)))),
        (None, [file, line]) if Language::of(&file.text).is_none() => {
            Some((path, site(&file.text, number(line)?, None)))
        }
        (None, [file, line, column]) => Some((path, site(&file.text, number(line)?, Some(number(column)?)))),
        _ => None,
    }
}

/// The addresses of functions that a place is the beginning of.
fn entries(file: &Executable, site: &Site) -> Vec<u64> {
    if matches!(site, Site::Line { .. }) || matches!(site, Site::Function { offset, .. } if *offset != 0) {
        return Vec::new();
    }
    let offsets = site.offsets(file).unwrap_or_default();
    let begins = |offset: &u64| file.function_at(*offset).is_some_and(|f| f.offset == *offset);
    let begins = offsets.into_iter().filter(begins);
    begins.filter_map(|offset| file.address_of(offset)).collect()
}

impl UserProbe {
    /// Adds what debug information says: of each function of a set by itself.
    fn typed(&self, catalog: &Catalog, wanted: TypesWanted, events: &mut Resolved) -> Option<()> {
        let first = events.strategies.first()?;
        let Mechanism::Uprobes(place) = &first.mechanism else {
            return None;
        };
        let file = catalog.executables().get(&place.path).ok()?;
        if wanted == TypesWanted::IfKnown && !file.is_described() {
            return None;
        }
        let sites: Vec<Site> = events
            .instances
            .iter()
            .filter_map(|instance| Some(Site::read(self.split(&instance.name)?.1)))
            .collect();
        let addresses: Vec<Vec<u64>> = sites.iter().map(|site| entries(&file, site)).collect();
        let known = file.describe(catalog.types().ok().as_ref(), &addresses.concat())?;
        if let ([_], [addresses]) = (events.instances.as_slice(), addresses.as_slice()) {
            let is_copy = sites.iter().any(is_copy);
            for strategy in &mut events.strategies {
                self.set_types(strategy, &known, addresses, is_copy);
            }
            return Some(());
        }
        if events.members.is_empty() {
            let first = &events.instances.first()?.name;
            let path = self.split(first)?.0.to_owned();
            let probed = Probed {
                file: &file,
                path: &path,
            };
            let singles = sites.iter().map(|site| self.one(catalog, probed, site));
            events.members = singles.collect::<Result<_>>().ok()?;
        }
        for (one, (addresses, site)) in events.members.iter_mut().zip(addresses.iter().zip(&sites)) {
            for strategy in &mut one.strategies {
                self.set_types(strategy, &known, addresses, is_copy(site));
            }
        }
        Some(())
    }

    /// Adds the types of a function to what is known at its event.
    fn set_types(&self, strategy: &mut Strategy, known: &Described, addresses: &[u64], is_copy: bool) {
        let context = &mut strategy.context;
        context.types = Some(known.types.clone());
        let mut found = addresses.iter().map(|address| known.functions.get(address));
        let Some(Some(signature)) = found.next() else {
            return;
        };
        // Functions of one name may be different ones: then each has its own parameters.
        if !found.all(|other| other == Some(signature)) {
            let several = "several functions have this name, with other parameters each";
            context.remarks.push(several.to_owned());
            return;
        }
        let fields = user_types::fields(known, signature, is_copy);
        if !self.at_return {
            context.fields = fields;
            return;
        }
        if let (Some(value), Some(ty)) = (
            &mut context.return_value,
            user_types::return_type(known, signature),
        ) {
            value.ty = ty;
        }
        if let Some(pair) = &mut context.pair {
            let mut changed = (**pair).clone();
            changed.first.types = Some(known.types.clone());
            changed.first.fields = fields;
            *pair = Arc::new(changed);
        }
    }
}

/// Whether a function is a copy that the compiler made for some of its callers (`f.constprop.0`, `f.isra.0`).
fn is_copy(site: &Site) -> bool {
    matches!(site, Site::Function { name, .. } if [".constprop", ".isra", ".part"].iter().any(|mark| name.contains(mark)))
}

impl UserProbe {
    /// An event's name as the path and what stands behind it.
    fn split<'n>(&self, name: &'n str) -> Option<(&'n str, &'n str)> {
        let rest = name.strip_prefix(self.name())?.strip_prefix(':')?;
        rest.split_once(':')
    }
}
