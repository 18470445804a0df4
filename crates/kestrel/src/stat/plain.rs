//! Tracepoints of which nothing but the count is asked: the kernel's own counters give that for a quarter of what a program takes.

use super::request::Request;
use super::scope::{Scope, Split};
use super::wanted::Wanted;
use kestrel_catalog::catalog::{Catalog, Glob, Via};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::parse_probes;
use kestrel_kernel::perf::Counter;
use kestrel_kernel::tracefs::Tracefs;

/// A tracepoint that is only counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plain {
    /// Its name, as programs' events have it.
    pub(super) name: String,
    /// The kernel's number of it.
    pub(super) counter: Counter,
}

/// More are cheaper to attach and to detach as programs: the kernel waits for a grace period for each counter that it takes off a tracepoint.
const MOST: usize = 4;

/// What each text asks for, if it is tracepoints by their names and nothing more.
pub(super) fn of(wanted: &[Wanted], request: &Request, catalog: &Catalog) -> Vec<Option<Vec<Plain>>> {
    let none = || wanted.iter().map(|_| None).collect();
    let is_split = !matches!(request.split, Split::None | Split::Cpu);
    // Threads that come while counters of a process are opened, one by one, would not be counted; perf may not know a cgroup.
    let is_other = matches!(request.scope, Scope::Processes(_) | Scope::Cgroup(_));
    if is_split || is_other || request.via != Via::Auto {
        return none();
    }
    let Ok(tracefs) = Tracefs::mount(catalog.host()) else {
        return none();
    };
    let of_tasks = matches!(request.scope, Scope::Command(_) | Scope::Threads(_));
    let all: Vec<Option<Vec<Plain>>> = wanted
        .iter()
        .map(|wanted| match wanted {
            Wanted::Traced(text) => plain(text, of_tasks, &tracefs),
            Wanted::Counters(..) => None,
        })
        .collect();
    match all.iter().flatten().map(Vec::len).sum::<usize>() <= MOST {
        true => all,
        false => none(),
    }
}

/// The tracepoints of a text that has nothing else.
fn plain(text: &str, of_tasks: bool, tracefs: &Tracefs) -> Option<Vec<Plain>> {
    let (probes, found) = parse_probes(text);
    let bare = probes
        .iter()
        .all(|probe| probe.predicate.is_none() && probe.block.is_none() && probe.object.is_none());
    if !found.is_empty() || !bare {
        return None;
    }
    let events = probes.iter().flat_map(|probe| &probe.events);
    let mut all: Vec<Plain> = events
        .map(|event| one(event, of_tasks, tracefs))
        .collect::<Option<_>>()?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup();
    Some(all)
}

fn one(event: &EventSpec, of_tasks: bool, tracefs: &Tracefs) -> Option<Plain> {
    let parts: Vec<&str> = event.parts.iter().map(|part| part.text.as_str()).collect();
    let (group, name) = match parts.as_slice() {
        ["tracepoint" | "t", group, name] | [group, name] => (*group, *name),
        _ => return None,
    };
    // perf counts what happens to a task for that task, too (`__perf_task` in include/trace/events/sched.h): a hit may count twice.
    if of_tasks && group == "sched" || !Glob::new(group).is_plain() || !Glob::new(name).is_plain() {
        return None;
    }
    let id = tracefs.event_id(group, name).ok()?;
    Some(Plain {
        name: format!("{group}:{name}"),
        counter: Counter::tracepoint(id, format!("{group}:{name}")),
    })
}
