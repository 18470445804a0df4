//! Interface of an event kind; one file per kind beside this, one row each in the table of kinds.

use super::glob::Glob;
use super::lookup::Catalog;
use crate::attach::{Calls, Functions, Mechanism};
use crate::error::Result;
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind::EventKindNames;
use kestrel_trace::layout::Layout;
use kestrel_trace::print::OwnFormat;
use std::fmt;

/// A kind's own description: the same on every kernel.
#[derive(Debug)]
pub struct KindRow {
    /// Canonical name, as in `kprobe:vfs_read`.
    pub name: &'static str,
    /// Shorter names of the kind: `k`.
    pub aliases: &'static [&'static str],
    /// Parts of a name after the kind: 1 for functions, 2 for `group:event`, 0 where the kind is one event.
    pub parts: usize,
    /// Whether `list` shows it without being asked for it by name.
    pub listed: bool,
    /// Whether names without a kind are of this one: `sched:sched_switch` is a tracepoint. One kind is the default.
    pub is_default: bool,
    /// Whether several handlers of one of its events run in one program, one after the other: so it is with places in code and with counters.
    pub joins_handlers: bool,
}

impl KindRow {
    /// A kind that is listed, and whose events have one program for all of their handlers.
    pub(super) const fn new(names: EventKindNames, parts: usize) -> Self {
        Self {
            name: names.name,
            aliases: names.aliases,
            parts,
            listed: true,
            is_default: false,
            joins_handlers: true,
        }
    }
}

/// A kind of event: where its names come from and how one is turned into something to attach to.
pub trait EventKind: Sync {
    /// The names of the kind, and what holds for all of its events.
    fn row(&self) -> &KindRow;

    /// Canonical name, as in `kprobe:vfs_read`.
    fn name(&self) -> &'static str {
        self.row().name
    }

    /// Calls `found` with every event's name (without the kind) that matches; the patterns are one per part.
    ///
    /// # Errors
    /// When the kernel does not say what there is.
    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()>;

    /// The events that match, by their names, as they are listed: without those of which it is known that no program can be attached to them.
    ///
    /// # Errors
    /// As [`EventKind::names`], and why nothing can be attached where events match, but none of them can be listed.
    fn listed(&self, catalog: &Catalog, patterns: &[Glob]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.names(catalog, patterns, &mut |name| names.push(name.to_owned()))?;
        Ok(names)
    }

    /// All names that a text may have for events of this kind, where these are the same on every kernel: `cpu-clock` and `cpu`.
    fn fixed_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The fields of one event, typed, for people.
    ///
    /// # Errors
    /// When the event does not exist or its types are not known.
    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description>;

    /// Everything that an event specification stands for, ready to be compiled: alternatives first to last.
    ///
    /// # Errors
    /// When nothing matches, or this kernel cannot do it.
    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, via: Via) -> Result<Vec<Resolved>>;

    /// Adds what is costly to know and wanted by few: the parameters and types that debug information of programs has.
    fn add_types(&self, _catalog: &Catalog, _wanted: TypesWanted, _events: &mut Resolved) {}

    /// Exactly these events (names of instances), in this order, as one set that a single program serves; `None` where the kind has no such sets.
    ///
    /// # Errors
    /// When this kernel cannot do it.
    fn set(&self, _catalog: &Catalog, _names: &[String], _via: Via) -> Result<Option<Resolved>> {
        Ok(None)
    }

    /// One event of a set with what the set's program can know of it, where that may be less than the event has by itself.
    ///
    /// # Errors
    /// When this kernel cannot be asked.
    fn member(&self, _catalog: &Catalog, _name: &str) -> Result<Option<Resolved>> {
        Ok(None)
    }
}

/// When debug information of an event's program is read for its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypesWanted {
    /// Always: a handler names types.
    Always,
    /// Where it was read for another event of the program: what a map keeps there may be read here.
    IfKnown,
}

/// Kinds of events: tables with a row for each.
#[derive(Clone, Copy)]
pub(super) struct Kinds(&'static [&'static [&'static dyn EventKind]]);

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.all().map(|kind| kind.name()))
            .finish()
    }
}

impl Kinds {
    /// The kinds of these tables.
    pub(super) const fn of(tables: &'static [&'static [&'static dyn EventKind]]) -> Self {
        Self(tables)
    }

    /// All kinds, in the order in which they are listed and tried.
    pub(super) fn all(self) -> impl Iterator<Item = &'static dyn EventKind> {
        self.0.iter().flat_map(|table| table.iter()).copied()
    }

    /// The one with this name or alias.
    pub(super) fn find(self, name: &str) -> Option<&'static dyn EventKind> {
        self.all()
            .find(|k| k.name() == name || k.row().aliases.contains(&name))
    }

    /// The kind of names that have none before them, if they have as many parts as its names.
    pub(super) fn default_kind(self) -> Option<&'static dyn EventKind> {
        self.all().find(|kind| kind.row().is_default)
    }

    /// The kind with this name or alias, if it is one of those that are not there yet.
    pub(super) fn find_later(self, name: &str) -> Option<&'static str> {
        let mut later = LATER.iter().filter(|(kind, _)| self.find(kind).is_none());
        let found = later.find(|(kind, aliases)| *kind == name || aliases.contains(&name));
        found.map(|(kind, _)| *kind)
    }
}

/// Event kinds of bpftrace, with their short forms. One that has no row in the table of kinds is refused as not yet supported.
const LATER: &[(&str, &[&str])] = &[("asyncwatchpoint", &["aw"])];

/// Way of reading tracepoints: raw or by their entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Raw where a rule says how, else the formatted entry.
    #[default]
    Auto,
    /// Raw arguments only.
    Raw,
    /// The formatted entry only.
    Classic,
}

/// A field of an event as `list` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedField {
    /// The field's name.
    pub name: String,
    /// The type as C writes it.
    pub ty: String,
}

/// An event as `list` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Fields or parameters.
    pub fields: Vec<DescribedField>,
    /// The returned value, for return events.
    pub returns: Option<String>,
}

/// An event among those that share a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Name of the event: `kprobe:vfs_read`, `sched:sched_switch`.
    pub name: String,
    /// Identity of the event where it has several names: events that are equal in this are one.
    pub identity: Option<String>,
    /// The function, for function events.
    pub symbol: Option<String>,
    /// The value that distinguishes it from the others of its program, where there is one (a system call's number).
    pub code: Option<u32>,
    /// How the fields of the default record are called for this one, where the program knows them only as an array.
    pub layout: Option<Layout>,
    /// Format in which its record is printed, where the event brings one.
    pub print: Option<OwnFormat>,
}

/// A strategy to see one event (or a set of functions): enough to compile a handler and attach it.
#[derive(Clone)]
pub struct Strategy {
    /// The mechanism of attaching, and its target.
    pub mechanism: Mechanism,
    /// The event as the compiler sees it; the plan sets its number.
    pub context: Context,
    /// An expression that must hold before the user's predicate (the system call's number).
    pub guard: Option<String>,
    /// The hooks that the pair of the context needs beside this one.
    pub companions: Option<HelperHooks>,
}

impl Strategy {
    /// A strategy that sees every hit, and needs no hook but its own.
    pub fn new(mechanism: Mechanism, context: Context) -> Self {
        Self {
            mechanism,
            context,
            guard: None,
            companions: None,
        }
    }

    /// The strategy of a function's entry or return in a program that sees both, if it is one of functions: as by a link to many, handlers see no registers but those of arguments.
    pub fn of_call(&self) -> Option<Self> {
        let Mechanism::Functions(Functions {
            at_return,
            maxactive: None,
            ..
        }) = self.mechanism
        else {
            return None;
        };
        let mut strategy = self.clone();
        strategy.mechanism = Mechanism::Calls(Calls { at_return });
        strategy.context.registers.clear();
        strategy.context.pair = None;
        strategy.companions = None;
        Some(strategy)
    }
}

/// Hooks at the other events of a pair: attached where a handler asks for the pair, with handlers that the checker makes.
#[derive(Clone, Debug, PartialEq)]
pub struct HelperHooks {
    /// At the event that comes first.
    pub first: HelperHook,
    /// At the event after which the second will not come.
    pub aborted: Option<HelperHook>,
}

/// A hook that serves another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperHook {
    /// The mechanism of attaching, and its target.
    pub mechanism: Mechanism,
    /// The suffix that its own name adds to that of the event it serves.
    pub label: &'static str,
    /// The function, where it is another than that of the event.
    pub symbol: Option<String>,
}

impl HelperHook {
    /// The events of the hook, given those of the one that it serves.
    pub fn instances(&self, served: &[Instance]) -> Vec<Instance> {
        let of = |instance: &Instance| Instance {
            name: format!("{} {}", instance.name, self.label),
            identity: None,
            symbol: self.symbol.clone().or_else(|| instance.symbol.clone()),
            code: None,
            layout: None,
            print: None,
        };
        served.iter().map(of).collect()
    }
}

/// A resolved event, or a set of functions that one program serves.
#[derive(Clone)]
pub struct Resolved {
    /// The kind's canonical name.
    pub kind: &'static str,
    /// At least one.
    pub instances: Vec<Instance>,
    /// Strategies to see it, best first; the next is taken when the kernel or the checker refuses one.
    pub strategies: Vec<Strategy>,
    /// The set's events one by one, for handlers that need what differs between them; empty where nothing does.
    pub members: Vec<Resolved>,
}

impl Resolved {
    /// The number of calls that can be pending while their return is probed (maxactive), where it is given.
    pub fn calls(&self) -> Option<u32> {
        self.strategies
            .first()
            .and_then(|strategy| strategy.mechanism.maxactive())
    }
}

impl Instance {
    /// An instance that needs no more than a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            identity: None,
            symbol: None,
            code: None,
            layout: None,
            print: None,
        }
    }

    /// Identity that an event shares with itself under another name.
    pub fn identity(&self) -> &str {
        self.identity.as_deref().unwrap_or(&self.name)
    }

    /// The layout of a record of this event, given the one that the program writes: the same bytes, better names. `probe` is what the event is called in records, `numbers` are those of events
    /// in what handlers keep.
    pub fn named_layout(&self, written: &Layout, probe: &str, numbers: &[(i64, &str)]) -> Layout {
        match &self.layout {
            Some(named) if is_syscall_words(written) && named.constant_size() == written.constant_size() => {
                named.clone()
            }
            _ => written
                .named_event(probe, numbers)
                .unwrap_or_else(|| written.clone()),
        }
    }

    /// An instance that is a function of the kernel.
    pub(crate) fn function(kind: &str, symbol: impl Into<String>) -> Self {
        let symbol = symbol.into();
        Self {
            symbol: Some(symbol.clone()),
            ..Self::named(format!("{kind}:{symbol}"))
        }
    }
}

/// Whether it is the default record of a set of system calls: its number, then words.
fn is_syscall_words(layout: &Layout) -> bool {
    let names: Vec<&str> = layout.fields().iter().map(|f| f.name.as_str()).collect();
    names == ["__syscall_nr", "args"]
}
