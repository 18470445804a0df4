//! Events of the traced targets: those of their threads, and those about their threads, which other tasks cause: a wakeup, the switch to one, a signal.

use super::source::Options;
use crate::ftrace::one_of_cpus;
use kestrel_catalog::catalog::{Resolved, is_own_event};
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_trace::about::about;
use kestrel_trace::event_kind;

/// Events that are asked for in one way: a set whose events are not is taken apart.
pub(super) fn split_by_target_fields(events: Resolved, options: &Options) -> Vec<Resolved> {
    let mut rows = events.instances.iter().map(|event| about(&event.name));
    let first = rows.next().unwrap_or_default();
    let is_uniform = options.target == ProcessFilter::All || options.only_own || rows.all(|row| row == first);
    match is_uniform || events.members.is_empty() {
        true => vec![events],
        false => events.members,
    }
}

/// Lets only events of and about the targets in, and those of the CPUs that are wanted. Gives the fields by which events are about them.
pub(super) fn admit(events: &mut Resolved, options: &Options) -> Vec<&'static str> {
    if options.target == ProcessFilter::All && options.cpus.is_empty()
        || is_of_no_process(events.kind)
        || counts_in_process(events)
    {
        return Vec::new();
    }
    let fields = fields(events, options);
    let processes = processes(&options.target, &fields);
    let cpus = one_of_cpus("cpu", &options.cpus);
    let parts: Vec<String> = [cpus, processes].into_iter().flatten().collect();
    if !parts.is_empty() {
        guard(events, &parts.join(" && "));
    }
    fields
}

/// Lets only the hits of a command itself in, of the probes that lie in files: a program of the language that has a command attaches them to its process, as
/// bpftrace does. What the command forks is another process.
pub(super) fn admit_command(events: &mut Resolved, command: Option<u32>) {
    let in_file = event_kind::find(events.kind).is_some_and(|kind| kind.subject.is_file());
    if let Some(pid) = command.filter(|_| in_file) {
        guard(events, &format!("pid == {pid}"));
    }
}

/// Whether events of a kind are the program's own, as walks are, or a clock's: they happen whatever process runs.
fn is_of_no_process(kind: &str) -> bool {
    is_own_event(kind) || kind == "interval"
}

/// Whether the kernel counts an event in one process alone.
fn counts_in_process(events: &Resolved) -> bool {
    let mut counters = events
        .strategies
        .iter()
        .map(|strategy| strategy.mechanism.counter());
    counters.all(|counter| counter.is_some_and(|counter| counter.process.is_some()))
}

/// The fields of events that hold the number of a thread, which all of them have under all strategies.
fn fields(events: &Resolved, options: &Options) -> Vec<&'static str> {
    let Some(first) = events.instances.first() else {
        return Vec::new();
    };
    let known = about(&first.name);
    let is_uniform = events.instances.iter().all(|event| about(&event.name) == known);
    if options.only_own || options.target == ProcessFilter::All || !is_uniform {
        return Vec::new();
    }
    let has = |field: &&&str| {
        let mut strategies = events.strategies.iter();
        strategies.all(|strategy| strategy.context.fields.iter().any(|known| known.name == **field))
    };
    known.iter().filter(has).copied().collect()
}

/// Condition on an event of or about the targets, where the guard must ask.
fn processes(target: &ProcessFilter, fields: &[&str]) -> Option<String> {
    let equal = |word: &str, numbers: &[u32]| {
        let each: Vec<String> = numbers
            .iter()
            .map(|number| format!("{word} == {number}"))
            .collect();
        each.join(" || ")
    };
    let followed = fields.iter().map(|field| format!("is_target(args.{field})"));
    let (own, about): (String, Vec<String>) = match target {
        ProcessFilter::All => return None,
        ProcessFilter::Command(_) if fields.is_empty() => return None,
        ProcessFilter::Command(_) => ("is_target(tid)".to_owned(), followed.collect()),
        ProcessFilter::Processes(pids) => (equal("pid", pids), followed.collect()),
        ProcessFilter::Threads(tids) => {
            let about = fields.iter().map(|field| equal(&format!("args.{field}"), tids));
            (equal("tid", tids), about.collect())
        }
    };
    let any: Vec<String> = std::iter::once(own).chain(about).collect();
    Some(format!("({})", any.join(" || ")))
}

/// Puts a condition behind those that say which event it is.
fn guard(events: &mut Resolved, condition: &str) {
    for strategy in &mut events.strategies {
        strategy.guard = Some(match strategy.guard.take() {
            None => condition.to_owned(),
            Some(before) => format!("({before}) && {condition}"),
        });
    }
    for one in &mut events.members {
        guard(one, condition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_catalog::attach::{self, Mechanism};
    use kestrel_catalog::catalog::{Instance, Strategy};
    use kestrel_compiler::context::{Context, ProgramKind};
    use kestrel_kernel::perf::Software;

    #[test]
    fn conditions_as_the_language_has_them() {
        let of = |target, fields: &[&str]| processes(&target, fields).unwrap_or_default();
        let waking = ["pid"];
        assert_eq!(
            of(ProcessFilter::Processes(vec![3, 4]), &waking),
            "(pid == 3 || pid == 4 || is_target(args.pid))"
        );
        assert_eq!(
            of(ProcessFilter::Threads(vec![7]), &waking),
            "(tid == 7 || args.pid == 7)"
        );
        assert_eq!(
            of(ProcessFilter::Command(9), &waking),
            "(is_target(tid) || is_target(args.pid))"
        );
        assert_eq!(of(ProcessFilter::Command(9), &[]), "");
        assert_eq!(of(ProcessFilter::Processes(vec![3]), &[]), "(pid == 3)");
        assert_eq!(of(ProcessFilter::All, &waking), "");
    }

    fn counted(kind: &'static str, process: Option<u32>) -> Resolved {
        let counter = Mechanism::Counter(attach::Counter {
            counter: Software::PageFaults.into(),
            period: 1,
            every_cpu: true,
            process,
        });
        let context = Context::new(format!("{kind}:one"), ProgramKind::PerfEvent);
        Resolved {
            kind,
            instances: vec![Instance::named(format!("{kind}:one"))],
            strategies: vec![Strategy::new(counter, context)],
            members: Vec::new(),
        }
    }

    fn guards(events: &Resolved) -> Vec<&str> {
        let strategies = events.strategies.iter();
        strategies
            .filter_map(|strategy| strategy.guard.as_deref())
            .collect()
    }

    #[test]
    fn probes_of_files_alone_are_the_commands_own() {
        for (kind, command, wanted) in [
            ("uprobe", Some(7), vec!["pid == 7"]),
            ("uretprobe", Some(7), vec!["pid == 7"]),
            ("usdt", Some(7), vec!["pid == 7"]),
            ("usdt", None, vec![]),
            ("watchpoint", Some(7), vec![]),
            ("kprobe", Some(7), vec![]),
            ("tracepoint", Some(7), vec![]),
        ] {
            let mut events = counted(kind, None);
            admit_command(&mut events, command);
            assert_eq!(guards(&events), wanted, "{kind}");
        }
    }

    #[test]
    fn what_counts_in_a_process_is_not_asked_whose_it_is() {
        let options = Options {
            target: ProcessFilter::Processes(vec![7]),
            ..Options::default()
        };
        let guarded = |process| {
            let mut events = counted("software", process);
            admit(&mut events, &options);
            guards(&events).join("")
        };
        assert_eq!(guarded(None), "(pid == 7)");
        assert_eq!(guarded(Some(7)), "");
    }
}
