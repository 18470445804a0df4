//! The events that the patterns of a text stand for on this kernel, each once, however many patterns match it and by whatever name it is asked for.

use kestrel_catalog::attach::{Formatted, Mechanism};
use kestrel_catalog::catalog::phase::Phase;
use kestrel_catalog::catalog::tracepoint::shared_format::family;
use kestrel_catalog::catalog::{
    Catalog, Glob, Instance, Resolved, Strategy, Via, class, find_kind, jprobe, text_of,
};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::parse_events;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Events by kind and identity.
pub(super) type EventSet = HashSet<(&'static str, String)>;

/// What specifications of up to [`KEPT`] events stand for on this kernel, by their texts.
pub(super) type Resolutions = Rc<RefCell<HashMap<String, Rc<[Resolved]>>>>;

/// Most events of a specification that are kept beside those of the plan: all functions of the kernel take 200 MB.
const KEPT: usize = 4096;

/// Every event found so far.
pub(super) struct Events<'a> {
    catalog: &'a Catalog,
    via: Via,
    resolved: Resolutions,
    specs: HashMap<String, Rc<[Matched]>>,
    all: Vec<Event>,
    /// By kind and what all its names have in common, and by each of its names.
    places: HashMap<(&'static str, String), usize>,
    sets: Vec<Set>,
    /// Whether the kernel attaches kprobes in modules again when these come back; named probes are enabled again by command.
    pub(super) with_modules: bool,
}

/// An event of the plan.
struct Event {
    kind: &'static str,
    instance: Instance,
    /// The names by which it was asked for, one by one or by patterns.
    names: Vec<String>,
    /// Index of the name that it has in this turn of a program's probe.
    name_in_use: Option<usize>,
    /// By itself, where it was resolved so.
    single: Option<Resolved>,
    /// The set that it can be seen with.
    set: Option<usize>,
}

impl Event {
    /// The number of a name among its names.
    fn name(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

/// A set of events of one family that one program serves.
struct Set {
    kind: &'static str,
    family: String,
    strategies: Vec<Strategy>,
}

/// An event that a pattern matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// The place among all events.
    pub(super) event: usize,
    /// Whether the pattern was resolved to one program for many events.
    pub(super) in_set: bool,
    /// Which of the names of the event it was asked for by.
    name: usize,
}

impl<'a> Events<'a> {
    /// No events yet; specifications that were resolved before are not asked for again.
    pub(super) fn new(catalog: &'a Catalog, via: Via, resolved: &Resolutions) -> Self {
        Self {
            catalog,
            via,
            resolved: Rc::clone(resolved),
            specs: HashMap::new(),
            all: Vec::new(),
            places: HashMap::new(),
            with_modules: true,
            sets: Vec::new(),
        }
    }

    /// The resolved event as tables have it.
    fn for_tables(&self, resolved: Resolved) -> Resolved {
        match self.with_modules {
            true => resolved.with_modules(self.catalog),
            false => resolved,
        }
    }

    /// The events of a specification; asked for once per spelling.
    pub(super) fn find(&mut self, spec: &EventSpec) -> Result<Rc<[Matched]>> {
        let key = text_of(spec);
        if let Some(known) = self.specs.get(&key) {
            return Ok(known.clone());
        }
        let mut matched = Vec::new();
        for resolved in self.resolve(spec, &key)? {
            self.add(self.for_tables(resolved), &mut matched);
        }
        let matched: Rc<[Matched]> = matched.into();
        self.specs.insert(key, matched.clone());
        Ok(matched)
    }

    /// What a specification stands for on this kernel.
    fn resolve(&self, spec: &EventSpec, key: &str) -> Result<Vec<Resolved>> {
        if let Some(known) = self.resolved.borrow().get(key) {
            return Ok(known.to_vec());
        }
        let found = self.catalog.resolve(spec, self.via)?;
        let events = found.iter().map(|one| one.instances.len() + one.members.len());
        if events.sum::<usize>() <= KEPT {
            let kept = found.as_slice().into();
            self.resolved.borrow_mut().insert(key.to_owned(), kept);
        }
        Ok(found)
    }

    fn add(&mut self, resolved: Resolved, matched: &mut Vec<Matched>) {
        if let [instance] = resolved.instances.as_slice() {
            let event = self.place(resolved.kind, instance);
            let name = self.all[event].name(&instance.name);
            // One hook follows as many calls as any row asks for; an event of a pattern for many may be known without some of its strategies.
            let single = &mut self.all[event].single;
            if single.as_ref().is_none_or(|known| {
                known.calls() < resolved.calls() || known.strategies.len() < resolved.strategies.len()
            }) {
                *single = Some(resolved);
            }
            matched.push(Matched {
                event,
                in_set: false,
                name,
            });
            return;
        }
        let Resolved {
            kind,
            instances,
            strategies,
            members,
        } = resolved;
        let set = self.set(kind, strategies);
        for instance in instances {
            let event = self.place(kind, &instance);
            // Only an event of a set has a value that distinguishes it.
            self.all[event].instance = instance;
            self.all[event].set = Some(set);
            let name = self.all[event].instance.name.clone();
            matched.push(Matched {
                event,
                in_set: true,
                name: self.all[event].name(&name),
            });
        }
        for one in members {
            if let [instance] = one.instances.as_slice() {
                let event = self.place(kind, instance);
                self.all[event].single.get_or_insert(one);
            }
        }
    }

    fn place(&mut self, kind: &'static str, instance: &Instance) -> usize {
        let next = self.all.len();
        let identity = instance.identity().to_owned();
        let place = *self.places.entry((kind, identity)).or_insert(next);
        if place == next {
            self.all.push(Event {
                kind,
                instance: instance.clone(),
                names: Vec::new(),
                name_in_use: None,
                single: None,
                set: None,
            });
        }
        if instance.identity.is_some() {
            self.places.insert((kind, instance.name.clone()), place);
        }
        place
    }

    /// Gives an event the name that it was asked for by: a list may have several of its names (`uprobe:libc:open,uprobe:libc:open64`).
    pub(super) fn use_name(&mut self, found: Matched) {
        self.all[found.event].name_in_use = Some(found.name);
    }

    /// The kind of an event, and what all its names have in common.
    pub(super) fn identity(&self, found: Matched) -> (&'static str, String) {
        let event = &self.all[found.event];
        (event.kind, event.instance.identity().to_owned())
    }

    /// The name by which an event was asked for, with its kind.
    pub(super) fn full_name(&self, found: Matched) -> String {
        let event = &self.all[found.event];
        let name = event.names.get(found.name).map_or("", String::as_str);
        match name.split_once(':') {
            Some((kind, _)) if kind == event.kind => name.to_owned(),
            _ => format!("{}:{name}", event.kind),
        }
    }

    /// A name by which an event is asked for and another one by which it was asked for before, where either names it alone.
    pub(super) fn known_as(&self, found: Matched) -> Option<(&str, &str)> {
        let names = &self.all[found.event].names;
        let (name, first) = (names.get(found.name)?, names.first()?);
        match found.in_set {
            _ if found.name == 0 => None,
            true => Some((first, name)),
            false => Some((name, first)),
        }
    }

    /// Of some events those that a pattern matches by a name which the kernel's list does not have: of several names of a function
    /// ftrace lists one.
    pub(super) fn unlisted(&self, spec: &EventSpec, events: impl Iterator<Item = usize>) -> Vec<Matched> {
        let [first, last] = spec.parts.as_slice() else {
            return Vec::new();
        };
        let Some(kind) = find_kind(&first.text) else {
            return Vec::new();
        };
        let pattern = Glob::new(&last.text);
        let matches = |name: &String| function_of(name).is_some_and(|function| pattern.matches(function));
        let here = |event: &usize| {
            let event = &self.all[*event];
            event.kind == kind.name() && event.instance.symbol.is_some() && event.names.iter().any(matches)
        };
        let matched = events.filter(here).map(|event| Matched {
            event,
            in_set: false,
            name: 0,
        });
        matched.collect()
    }

    /// Whether a pattern that stands for nothing may stand for something on other kernels: a class, or names of a group that is in a class and
    /// that this kernel has nothing of.
    pub(super) fn may_be_absent(&self, spec: &EventSpec, error: &Error) -> bool {
        let what = match error {
            Error::NoSuchEvent { what, .. } => what,
            Error::WrongShape { .. } | Error::NotYet { .. } | Error::OfPrograms { .. } => return false,
            // This kernel has no events of a kind that it does not support.
            _ => return !is_name(spec),
        };
        let (group, name) = match spec.parts.as_slice() {
            [kind, _] if kind.text == "class" => return what != "class",
            [kind, group, name] if find_kind(&kind.text).is_some_and(|k| k.name() == "tracepoint") => {
                (group, name)
            }
            [group, name] if find_kind(&group.text).is_none() => (group, name),
            _ => return false,
        };
        let known = class::of(&format!("{}:{}", group.text, name.text)).is_some();
        !is_name(spec) && known && !self.catalog.has_group(&group.text)
    }

    fn set(&mut self, kind: &'static str, strategies: Vec<Strategy>) -> usize {
        let family =
            strategies
                .first()
                .map_or_else(String::new, |strategy| match strategy.mechanism.formatted() {
                    Formatted::Alike => family(&strategy.context),
                    Formatted::One | Formatted::No => strategy.context.name.clone(),
                });
        let first = strategies.first().map(|strategy| &strategy.mechanism);
        let known = self.sets.iter().position(|set| {
            let known = set.strategies.first().map(|strategy| &strategy.mechanism);
            set.kind == kind && set.family == family && known == first
        });
        known.unwrap_or_else(|| {
            self.sets.push(Set {
                kind,
                family,
                strategies,
            });
            self.sets.len() - 1
        })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The set that an event can be seen with.
    pub(super) fn set_of(&self, event: usize) -> Option<usize> {
        self.all[event].set
    }

    /// The event, where it is a jprobe.
    pub(super) fn jprobe(&self, event: usize) -> Option<&Instance> {
        let event = &self.all[event];
        (event.kind == jprobe::NAME).then_some(&event.instance)
    }

    /// The place of an event among all, whatever name it was asked for by.
    pub(super) fn named(&self, kind: &str, name: &str) -> Option<usize> {
        let kind = find_kind(kind)?.name();
        let place = |name: &str| self.places.get(&(kind, name.to_owned())).copied();
        place(name).or_else(|| {
            // A question to the kernel is worth it only where there may be an answer.
            let any = self.all.iter().any(|event| event.kind == kind);
            let identity = any.then(|| self.catalog.canonical_name(name))?;
            place(&identity)
        })
    }

    /// One event as something to attach to, by this name of it.
    pub(super) fn one_called(&self, kind: &str, name: &str) -> Option<Resolved> {
        let one = self.one(self.named(kind, name)?)?;
        if one.instances.iter().all(|instance| instance.name == name) {
            return Some(one);
        }
        self.anew(name)
    }

    /// One event seen by this mechanism, if there is such a strategy: an event that only a pattern for many named may be known without it.
    pub(super) fn one_at(&self, kind: &str, name: &str, mechanism: &Mechanism) -> Option<Resolved> {
        let one = self.one_called(kind, name)?;
        match one
            .strategies
            .iter()
            .any(|strategy| strategy.mechanism.is_same_place(mechanism))
        {
            true => Some(one),
            false => self.anew(name).or(Some(one)),
        }
    }

    /// Resolves a name alone.
    fn anew(&self, name: &str) -> Option<Resolved> {
        let (probe, _) = parse_events(name);
        let [spec] = probe.events.as_slice() else {
            return None;
        };
        let resolved = self.catalog.resolve(spec, self.via).ok()?;
        let first = resolved.into_iter().next()?;
        Some(self.for_tables(first))
    }

    /// One event as something to attach to.
    pub(super) fn one(&self, event: usize) -> Option<Resolved> {
        let Event {
            kind,
            instance,
            single,
            set,
            names,
            name_in_use,
        } = &self.all[event];
        let mut one = single.clone().or_else(|| {
            let set = &self.sets[(*set)?];
            Some(Resolved {
                kind,
                instances: vec![instance.clone()],
                strategies: set.strategies.clone(),
                members: Vec::new(),
            })
        })?;
        if let (Some(name), [instance]) = (
            name_in_use.and_then(|name| names.get(name)),
            one.instances.as_mut_slice(),
        ) {
            let before = std::mem::replace(&mut instance.name, name.clone());
            for strategy in &mut one.strategies {
                if let Some(kind) = strategy.context.name.strip_suffix(&before) {
                    strategy.context.name = format!("{kind}{name}");
                }
                let function = &mut strategy.context.function;
                let before_it = function
                    .as_ref()
                    .and_then(|known| before.strip_suffix(known.as_str()));
                if let Some(alias) = before_it.and_then(|before_it| name.strip_prefix(before_it)) {
                    *function = Some(alias.to_owned());
                }
            }
        }
        Some(one)
    }

    /// Events of one kind, named one by one, as a set; `None` where the kind has no program for many.
    pub(super) fn set_of_names(&self, kind: &str, names: &[String]) -> Result<Option<Resolved>> {
        let set = self.catalog.set(kind, names, self.via)?;
        Ok(set.map(|set| self.for_tables(set)))
    }

    /// Several events of one set as something to attach to.
    pub(super) fn resolved_set(&self, set: usize, events: &[usize]) -> Resolved {
        let members: Option<Vec<Resolved>> = events.iter().map(|&e| self.all[e].single.clone()).collect();
        Resolved {
            kind: self.sets[set].kind,
            instances: events.iter().map(|&e| self.all[e].instance.clone()).collect(),
            strategies: self.sets[set].strategies.clone(),
            members: members.unwrap_or_default(),
        }
    }
}

/// The function that an event is the entry or the return of, by the name that it bears.
fn function_of(event: &str) -> Option<&str> {
    let mut parts = event.split(':');
    let (_kind, last) = (parts.next()?, parts.next_back()?);
    let inside = last.contains('+') || last.starts_with("0x") || Phase::is_behind(last);
    (!inside).then_some(last)
}

/// Whether a specification names one event, so that it must be there and must be seen; patterns and classes take what there is.
pub(super) fn is_name(spec: &EventSpec) -> bool {
    let class = spec.parts.first().is_some_and(|p| p.text == "class");
    !class && spec.parts.iter().all(|part| Glob::new(&part.text).is_plain())
}

/// Message of an error about one specification in the file, and whether it is fatal only to that.
pub(super) fn about(error: Error) -> Result<(String, Option<String>)> {
    match error {
        Error::NoSuchEvent { ref near, .. } => {
            let hint = match near.as_slice() {
                [] => None,
                near => Some(format!("did you mean {}?", near.join(", "))),
            };
            let message = without_near(error).to_string();
            Ok((message, hint))
        }
        Error::WrongShape { wanted, shape } => Ok((
            format!("\"{wanted}\" does not name an event"),
            Some(format!("it should read {shape}")),
        )),
        error @ (Error::NoPlace { .. }
        | Error::NotFollowed { .. }
        | Error::NotYet { .. }
        | Error::OfPrograms { .. }
        | Error::Io { .. }
        | Error::Object { .. }
        | Error::Mark(_)) => Ok((error.to_string(), None)),
        other => Err(other),
    }
}

/// The error without names that come close.
fn without_near(error: Error) -> Error {
    match error {
        Error::NoSuchEvent { what, wanted, .. } => Error::NoSuchEvent {
            what,
            wanted,
            near: Vec::new(),
        },
        other => other,
    }
}
