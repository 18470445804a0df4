//! Tracepoints of which nothing but the count is asked: the kernel's own counters give that for a quarter of what a program takes.

use super::count_spec::CountSpec;
use super::counters;
use super::request::CountRequest;
use super::scope::{Scope, Split};
use kestrel_catalog::catalog::{Catalog, Glob, Via};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::parse_probes;
use kestrel_kernel::perf::Counter;
use kestrel_kernel::tracefs::Tracefs;

/// A tracepoint that is only counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plain {
    /// The name, as programs' events have it.
    pub(super) name: String,
    /// The kernel's number of it.
    pub(super) counter: Counter,
    /// Place of the counter in all specifications.
    pub(super) place: usize,
}

/// More are cheaper to attach and to detach as programs: the kernel waits for a grace period for each counter that it takes off a tracepoint.
const MAX: usize = 4;

/// Each thread of a process has a counter of its own; a program is one for all of them.
const MAX_COUNTERS: usize = 1024;

/// Plain counting requests of each text, if it is tracepoints by their names and nothing more.
pub(super) fn of(wanted: &[CountSpec], request: &CountRequest, catalog: &Catalog) -> Vec<Option<Vec<Plain>>> {
    let is_split = !matches!(request.split, Split::None | Split::Cpu);
    if is_split || request.via != Via::Auto {
        return none(wanted);
    }
    let Ok(tracefs) = Tracefs::mount(catalog.host()) else {
        return none(wanted);
    };
    let of_tasks = match &request.scope {
        Scope::Command(_) | Scope::Threads(_) | Scope::Processes(_) => true,
        Scope::All | Scope::Cpus(_) | Scope::Cgroup(_) => false,
    };
    let all: Vec<Option<Vec<Plain>>> = wanted
        .iter()
        .map(|wanted| match wanted {
            CountSpec::Traced(text, places) => plain(text, places, of_tasks, &tracefs),
            CountSpec::Counters(..) => None,
        })
        .collect();
    let tracepoints = all.iter().flatten().map(Vec::len).sum::<usize>();
    let counters = tracepoints
        * request
            .scope
            .threads(catalog.host())
            .map_or(0, |threads| threads.len());
    let can = match &request.scope {
        Scope::Cgroup(cgroup) => tracepoints > 0 && counters::knows(cgroup, catalog.host()),
        _ => true,
    };
    match tracepoints <= MAX && counters <= MAX_COUNTERS && can {
        true => all,
        false => none(wanted),
    }
}

/// No plain counting request.
pub(super) fn none(wanted: &[CountSpec]) -> Vec<Option<Vec<Plain>>> {
    wanted.iter().map(|_| None).collect()
}

/// The tracepoints of a text that has nothing else.
fn plain(text: &str, places: &[usize], of_tasks: bool, tracefs: &Tracefs) -> Option<Vec<Plain>> {
    let (probes, found) = parse_probes(text);
    let bare = probes
        .iter()
        .all(|probe| probe.predicate.is_none() && probe.block.is_none() && probe.object.is_none());
    if !found.is_empty() || !bare {
        return None;
    }
    let events = probes.iter().flat_map(|probe| &probe.events);
    let mut all: Vec<Plain> = Vec::new();
    for (event, place) in events.zip(places) {
        let plain = one(event, *place, of_tasks, tracefs)?;
        if all.iter().all(|known| known.name != plain.name) {
            all.push(plain);
        }
    }
    Some(all)
}

fn one(event: &EventSpec, place: usize, of_tasks: bool, tracefs: &Tracefs) -> Option<Plain> {
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
        place,
    })
}
