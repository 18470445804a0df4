//! Tracepoints of tracefs: named `group:event`, read raw where a rule says how and from its formatted entry otherwise.

pub mod call_arguments;
mod classic;
mod field_type;
mod page_frame;
mod plain;
mod raw;
mod resolve;
pub(crate) mod rules;
pub mod shared_format;
pub mod syscall;

use super::glob::Glob;
use super::kind::{DescribedField, Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use crate::attach::Mechanism;
use crate::error::{Error, Result};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::tracefs::EventName;
use kestrel_trace::event_kind;
use resolve::{resolve_one, split};

/// The kind `tracepoint`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracepoint;

const ROW: KindRow = KindRow {
    is_default: true,
    ..KindRow::new(event_kind::TRACEPOINT, 2)
};

impl EventKind for Tracepoint {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let (group, name) = (patterns.first(), patterns.get(1));
        if let (Some(group), Some(name)) = (group.filter(|g| g.is_plain()), name.filter(|n| n.is_plain())) {
            if catalog.tracefs()?.has(group.text(), name.text())? {
                found(&format!("{}:{}", group.text(), name.text()));
            }
            return Ok(());
        }
        listed(catalog)?
            .iter()
            .filter(|e| matches(e, group, name))
            .for_each(|e| found(&format!("{}:{}", e.group, e.name)));
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        let (group, event) = split(name);
        let format = catalog.tracefs()?.format(group, event)?;
        let field = |f: &kestrel_kernel::tracefs::Field| DescribedField {
            name: f.name.clone(),
            ty: match f.array_len {
                Some(n) => format!("{}[{n}]", f.type_text),
                None if f.is_array() => format!("{}[]", f.type_text),
                None => f.type_text.clone(),
            },
        };
        Ok(Description {
            fields: format
                .fields
                .iter()
                .filter(|f| group != "syscalls" || !syscall::is_withheld(f))
                .map(field)
                .collect(),
            returns: None,
        })
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, via: Via) -> Result<Vec<Resolved>> {
        let [group, name] = &spec.parts[1..] else {
            return Err(Error::wrong_shape(spec, "tracepoint:GROUP:EVENT"));
        };
        let names = catalog.expand(self, &[Glob::new(&group.text), Glob::new(&name.text)])?;
        self.resolve_names(catalog, names, via)
    }

    fn set(&self, catalog: &Catalog, names: &[String], via: Via) -> Result<Option<Resolved>> {
        match syscall::set_of(catalog, names)? {
            Some(set) => Ok(Some(set)),
            None => shared_format::set_of(catalog, names, via),
        }
    }

    fn member(&self, catalog: &Catalog, name: &str) -> Result<Option<Resolved>> {
        syscall::member(catalog, name)
    }
}

impl Tracepoint {
    /// Every tracepoint that one of the patterns matches, pattern by pattern; none is no error, and near names are not sought.
    pub(super) fn resolve_all(self, catalog: &Catalog, patterns: &[&str], via: Via) -> Result<Vec<Resolved>> {
        // The kernel writes its list anew for each reader, which takes it longer than all that is done with it here.
        let listed = listed(catalog)?;
        let mut all = Vec::new();
        for pattern in patterns {
            let (group, name) = split(pattern);
            let (group, name) = (Glob::new(group), Glob::new(name));
            let mut names = Vec::new();
            if group.is_plain() && name.is_plain() {
                self.names(catalog, &[group, name], &mut |name| names.push(name.to_owned()))?;
            } else {
                let matching = listed.iter().filter(|e| matches(e, Some(&group), Some(&name)));
                names.extend(matching.map(|e| format!("{}:{}", e.group, e.name)));
            }
            all.extend(self.resolve_names(catalog, names, via)?);
        }
        Ok(all)
    }

    fn resolve_names(self, catalog: &Catalog, names: Vec<String>, via: Via) -> Result<Vec<Resolved>> {
        let one_by_one = |names: Vec<String>| -> Result<Vec<Resolved>> {
            let singles = names.iter().map(|name| resolve_one(catalog, name, via));
            Ok(shared_format::together(singles.collect::<Result<_>>()?))
        };
        if via == Via::Classic {
            return one_by_one(names);
        }
        // However the pattern came upon them: `*:*` must not give each system call a program on the one tracepoint of all.
        let (calls, others) = names.into_iter().partition(|name| name.starts_with("syscalls:"));
        let mut all = syscall::resolve(catalog, calls, via)?;
        all.extend(one_by_one(others)?);
        Ok(all)
    }
}

impl Resolved {
    /// Whether it is a system call's entry or return that is seen on the raw tracepoint of all calls: each program there runs for every call.
    pub fn is_on_all_calls(&self) -> bool {
        let of_all = |strategy: &Strategy| {
            matches!(
                strategy.mechanism,
                Mechanism::TypedTracepoint(_) | Mechanism::RawTracepoint(_)
            )
        };
        let is_call = |instance: &Instance| instance.name.starts_with("syscalls:");
        self.strategies.first().is_some_and(of_all) && self.instances.iter().all(is_call)
    }

    /// The event without strategies that see a tracepoint's event at a function behind the tracepoint: many kprobes take long to go.
    pub(super) fn at_tracepoints(mut self) -> Self {
        if self.kind == Tracepoint.name() {
            self.strategies.retain(|strategy| strategy.mechanism.relays());
        }
        self.members = self.members.into_iter().map(Self::at_tracepoints).collect();
        self
    }
}

/// All that the kernel lists, in the order of their names.
fn listed(catalog: &Catalog) -> Result<Vec<EventName>> {
    let mut events = catalog.tracefs()?.events()?;
    events.sort_unstable_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
    Ok(events)
}

/// Whether an event is of that group and name; those of ftrace itself are no tracepoints.
fn matches(event: &EventName, group: Option<&Glob>, name: Option<&Glob>) -> bool {
    group.is_none_or(|g| g.matches(&event.group))
        && name.is_none_or(|n| n.matches(&event.name))
        && event.group != "ftrace"
}
