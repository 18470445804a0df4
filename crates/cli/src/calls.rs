//! System calls among what is traced or read: the option that chooses them, the events that record them, and how calls of a recording are read.

use crate::arguments::duration;
use crate::exit::{Exit, Failure};
use crate::selection::Selection;
use clap::Args;
use kestrel::arch;
use kestrel::catalog::tracepoint::call_arguments;
use kestrel::catalog::{Catalog, Glob, find_kind};
use kestrel::kernel::Host;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::syscalls::{Calls, Detail, open_files};
use kestrel_trace::calls::{RAW_ENTER, RAW_EXIT, Reader, Signature, Signatures};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::{self, Layout, Shown, Style};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::syscall::{Set, SignalSet, usual_name};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// System calls to trace.
#[derive(Args, Clone, Debug)]
pub(crate) struct Traced {
    /// System calls with their arguments, results and durations, as strace shows them: all, or a SET of names, globs and classes
    /// (file, desc, net, process, signal, ipc, memory; also with % before them), each with ! before it left out. Events of -e stand between
    /// them; a call's line comes when the call is over, with -g the stacks of its entry beneath it
    #[arg(
        long,
        value_name = "SET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ALL,
        conflicts_with_all = ["table", "user"]
    )]
    pub(crate) syscalls: Option<String>,
}

/// Choice among the system calls of a set.
#[derive(Args, Clone, Debug)]
pub(crate) struct Only {
    /// Only calls that fail
    #[arg(long)]
    failed_only: bool,
    /// Only calls that took at least this time: seconds, or with us, ms, s, m, h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slower_than: Option<Duration>,
}

impl Only {
    /// Whether anything is chosen.
    pub(crate) fn is_given(&self) -> bool {
        self.failed_only || self.slower_than.is_some()
    }

    /// Takes the choice into what is shown: without one, all.
    pub(crate) fn choose(&self, shown: &mut Shown) {
        shown.failed_only = self.failed_only;
        let least = self.slower_than.map(|least| least.as_nanos());
        shown.slower_than = least.map(|ns| u64::try_from(ns).unwrap_or(u64::MAX));
    }

    /// The sentence for a trace in which no call was shown.
    pub(crate) fn missing(&self) -> &'static str {
        match (self.slower_than, self.failed_only) {
            (Some(_), true) => "failed so slowly",
            (Some(_), false) => "took so long",
            (None, true) => "failed",
            (None, false) => "came",
        }
    }
}

/// Choice of what is shown between system calls.
#[derive(Args, Clone, Debug)]
pub(crate) struct Between {
    /// With system calls, the signals whose coming is shown between them (`--- SIGCHLD {…} ---`): all, none, or names (INT,CHLD); all but those with `!` before
    /// them
    #[arg(long, value_name = "SET")]
    signal: Option<SignalSet>,
    /// With system calls, no lines of the ends of threads (`+++ exited with 0 +++`)
    #[arg(long)]
    no_exits: bool,
}

impl Between {
    /// Whether anything is chosen.
    pub(crate) fn is_given(&self) -> bool {
        self.signal.is_some() || self.no_exits
    }

    /// Takes the choice into what is shown: without one, all.
    pub(crate) fn choose(&self, shown: &mut Shown) {
        shown.signals = self.signal.clone().unwrap_or_default();
        shown.no_exits = self.no_exits;
    }
}

/// The set where none is named.
pub(crate) const ALL: &str = "all";

/// The calls of a set, and all events to record: theirs and those of -e.
pub(crate) fn traced(
    set: &str,
    selection: &Selection,
    catalog: &Catalog,
    detail: Detail,
) -> Result<(Calls, Vec<String>), Failure> {
    let calls = Calls::of(catalog, &Set::parse(set), detail, selection.entry_stacks())?;
    let others = selection.events(catalog)?;
    if let Some(event) = others.iter().find(|event| is_of_calls(event)) {
        let failure = Failure::new(
            Exit::Usage,
            format!("`{event}` beside --syscalls: these are the calls that it shows"),
        );
        return Err(failure.hint("--syscalls=SET chooses calls; -e alone shows their events as such"));
    }
    let events = calls.events.iter().chain(&others).cloned().collect();
    Ok((calls, events))
}

/// Whether an event of `-e` is one of the tracepoints of all system calls.
fn is_of_calls(event: &str) -> bool {
    let events = event.split('{').next().unwrap_or_default().split(',');
    let mut names = events.map(|one| {
        let mut words = one.trim_start().split(|c: char| c.is_whitespace() || c == '/');
        let name = words.next().unwrap_or_default();
        match name.split_once(':') {
            Some((kind, rest)) if find_kind(kind).is_some_and(|kind| kind.name() == "tracepoint") => rest,
            _ => name,
        }
    });
    names.any(|name| {
        let glob = Glob::new(name);
        name.contains(':') && (glob.matches(RAW_ENTER) || glob.matches(RAW_EXIT))
    })
}

/// Open files of the traced processes: to be read before and after the first calls are let in, as what is the same then was so in between.
pub(crate) fn files_of(target: &ProcessFilter, host: &Host) -> BTreeSet<(u32, i64, String)> {
    let pids: Vec<Option<u32>> = match target {
        ProcessFilter::Processes(pids) => pids.iter().copied().map(Some).collect(),
        ProcessFilter::Command(pid) => vec![Some(*pid)],
        ProcessFilter::Threads(_) | ProcessFilter::All => vec![None],
    };
    pids.iter().flat_map(|pid| open_files(host, *pid)).collect()
}

/// The calls of a recording, and which of them are shown: those of its own set, and of this one.
pub(crate) fn of_recording(
    trace: &Trace,
    path: &Path,
    set: Option<&str>,
) -> Result<(Signatures, Shown), Failure> {
    if !trace.reader.info().events.iter().any(Reader::is_of_calls) {
        let failure = Failure::new(
            Exit::Failed,
            format!("{} holds no events of system calls", path.display()),
        );
        return Err(failure.hint("`kestrel record --syscalls -- COMMAND` records them; `kestrel trace --syscalls -- COMMAND` shows them at once"));
    }
    let kept = trace.calls.as_ref();
    let signatures = match kept {
        Some(kept) => kept.signatures(),
        None => of_kernel(trace.reader.info()).unwrap_or_else(by_numbers),
    };
    let sets = kept.map(|kept| kept.set.as_str()).into_iter().chain(set);
    let mut shown = Shown::of(sets.map(Set::parse));
    shown.before_exec = kept.and_then(|kept| kept.command);
    if let Some(set) = set {
        check(&Set::parse(set), &signatures)?;
    }
    Ok((signatures, shown))
}

/// The calls of a recording as they are followed from record to record, with the files that its processes had open.
pub(crate) fn followed(
    trace: &Trace,
    path: &Path,
    set: Option<&str>,
    (layout, style): (Layout, Style),
) -> Result<export::Calls, Failure> {
    let (signatures, shown) = of_recording(trace, path, set)?;
    let mut calls = export::Calls::new(signatures, shown, layout, style);
    let overwritten = trace.summary.as_ref().map(|summary| summary.overwritten());
    match &trace.calls {
        // Overwritten calls may have opened and closed files: without them the numbers of descriptors have no certain names.
        Some(kept) if overwritten == Some(0) => {
            for (pid, number, name) in &kept.files {
                calls.open(*pid, *number, name.as_str());
            }
        }
        _ => calls = calls.without_files(),
    }
    Ok(calls)
}

/// Words of a set that no call matches are misspelt.
fn check(set: &Set, signatures: &Signatures) -> Result<(), Failure> {
    let name = |signature: &Signature| {
        let arguments = signature.names().into_iter().map(str::to_owned).collect();
        (usual_name(&signature.call).to_owned(), arguments)
    };
    let known: Vec<(String, Vec<String>)> = signatures.iter().map(|(_, it)| name(it)).collect();
    match set.unmatched(&known).first() {
        // Without their arguments it is not known which calls a class has.
        Some(word) if known.iter().any(|(_, arguments)| !arguments.is_empty()) && !word.contains('@') => {
            Err(Failure::new(
                Exit::Usage,
                format!("no system call of the recording is `{word}`"),
            ))
        }
        _ => Ok(()),
    }
}

/// The calls of the running kernel, with their arguments, where it is the recorded one.
fn of_kernel(info: &TraceInfo) -> Option<Signatures> {
    let host = Host::default();
    let release = host.read("/proc/sys/kernel/osrelease").ok()?;
    if release.trim() != info.kernel_release || info.machine != arch::current().name {
        return None;
    }
    let mut signatures = Signatures::default();
    for (number, signature) in call_arguments::signatures(&Catalog::new(host)).ok()? {
        signatures.insert(number.into(), signature);
    }
    Some(signatures)
}

/// The calls of this architecture by their numbers, as far as names.
fn by_numbers() -> Signatures {
    let mut signatures = Signatures::default();
    for number in 0..=arch::HIGHEST_SYSCALL {
        if let Some(name) = (arch::current().syscall_name)(number) {
            signatures.insert(u64::from(number), Signature::name_only(name));
        }
    }
    signatures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracepoints_of_all_calls_are_known_by_all_their_spellings() {
        for event in [
            "raw_syscalls:sys_enter",
            "sched:sched_switch, raw_syscalls:sys_exit",
            "tracepoint:raw_syscalls:sys_enter /args.id == 3/ { record(args) }",
            "t:raw_syscalls:sys_enter/pid == 1/",
            "raw_*:sys_*",
            "*:sys_exit",
        ] {
            assert!(is_of_calls(event), "{event}");
        }
        for event in [
            "syscalls:sys_enter_read",
            "t:syscalls:*",
            "kprobe:*",
            "sched:sched_switch { printf(\"a,raw_syscalls:sys_enter\") }",
        ] {
            assert!(!is_of_calls(event), "{event}");
        }
    }
}
