//! `kestrel trace --syscalls`: a line for each system call, or a table of them at the end.

use super::lines::{self, Lines};
use super::names::ThreadNameLookup;
use super::{LineFormat, Tally, bells, end, pause, status_line, write_out};
use crate::arguments::command_line;
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work};
use crate::output::Format;
use crate::output::calls::{By, write};
use crate::selection::{self, Selection};
use crate::status_line::StatusLine;
use clap::Args;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::syscalls::{Calls, Detail, EXIT, FORK, open_files};
use kestrel::tail::Live;
use kestrel_trace::calls::{
    Call, Descriptors, End, Pairing, RAW_ENTER, RAW_EXIT, Reader, Signature, Style, Summary, json, line,
};
use kestrel_trace::print::counted;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::syscall::Set;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Options about system calls.
#[derive(Args, Debug)]
pub(crate) struct CallOptions {
    /// Show system calls with their arguments, results and durations, as strace does: all, or a SET of names, globs and classes
    /// (file, desc, net, process, signal, ipc, memory; also with % before them), each with ! before it left out. Events of -e stand between
    /// them; a call's line comes when the call is over
    #[arg(
        long,
        value_name = "SET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with_all = ["table", "session", "stacks", "kernel_stack", "user"]
    )]
    pub(super) syscalls: Option<String>,
    /// Count the calls and show a table of them at the end, as strace -c does; with a COMMAND, whose standard output that is, on standard error
    #[arg(short, long, requires = "syscalls")]
    summary: bool,
    /// Only calls that fail
    #[arg(long, requires = "syscalls", conflicts_with = "summary")]
    failed_only: bool,
    /// What the table of --summary is about
    #[arg(long, value_enum, requires = "summary", default_value = "call")]
    by: By,
}

/// Traces system calls.
pub(super) fn run(
    set: &str,
    options: &CallOptions,
    selection: &Selection,
    format: Format,
) -> Result<Exit, Failure> {
    let catalog = selection::catalog(selection);
    let held = match selection.dry_run {
        true => None,
        false => selection::start_held(selection)?,
    };
    let detail = match options.summary {
        true => Detail::Times,
        false => Detail::Lines,
    };
    let calls = Calls::of(&catalog, &Set::parse(set), detail)?;
    let others = selection.events(&catalog)?;
    if let Some(event) = others.iter().find(|event| is_of_calls(event)) {
        let failure = Failure::new(
            Exit::Usage,
            format!("`{event}` beside --syscalls: these are the calls that it shows"),
        );
        return Err(failure.hint("--syscalls=SET chooses calls; -e alone shows their events as such"));
    }
    let events: Vec<String> = calls.events.iter().chain(&others).cloned().collect();
    let plan = selection::plan_of(&events, selection, held.as_ref(), &catalog)?;
    if selection::print_plan(selection, &plan)? {
        return Ok(Exit::Done);
    }
    let status = status_line(selection);
    let mut foreground = Foreground::new(selection.duration)?
        .with_target(&plan.target, catalog.host())
        .with_status_line(&status);
    let live = Live::ordered(Session::start(&plan, &catalog, &command_line())?);
    let names = || {
        Ok::<_, Failure>(ThreadNameLookup::new(
            live.session().kept_names()?,
            catalog.host(),
        ))
    };
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    let in_maps = live.session().has_user_stacks_in_maps();
    let code = lines::follow(live.session().classes(), in_maps, catalog.host());
    let mut shown = LiveCalls {
        other: Lines::new(LineFormat::of(format), symbols, names()?, code),
        names: names()?,
        view: View::new(
            &calls,
            options,
            format,
            matches!(plan.target, ProcessFilter::Command(_)),
        ),
        tally: Tally::default(),
        live,
        status,
    };
    if let ProcessFilter::Command(pid) = plan.target {
        shown.live.session().admit_before_exec(pid)?;
        shown.view.before_exec = Some(pid);
    }
    if !options.summary {
        shown.begin(&plan.target, &catalog);
    } else {
        shown.live.start();
    }
    foreground.release(held)?;
    foreground.run(&mut shown)?;
    let LiveCalls {
        live,
        mut view,
        mut other,
        tally,
        ..
    } = shown;
    view.finish()?;
    if !options.summary && view.is_without_lines() && tally.lost == 0 {
        hint_at_others(&calls, options.failed_only, tally.came());
    }
    let shown = (format, selection.verbose);
    end(live, other.code(), (&tally, &plan.target), catalog.host(), shown)?;
    Ok(foreground.exit())
}

/// Live tracing of calls.
struct LiveCalls {
    live: Live,
    names: ThreadNameLookup,
    /// Prints records of events that are no calls.
    other: Lines,
    view: View,
    tally: Tally,
    status: StatusLine,
}

impl LiveCalls {
    /// Lets calls in. What descriptors mean is read before and after: what is the same then was so in between.
    fn begin(&mut self, target: &ProcessFilter, catalog: &Catalog) {
        let pids = match target {
            ProcessFilter::Processes(pids) => pids.iter().copied().map(Some).collect(),
            ProcessFilter::Command(pid) => vec![Some(*pid)],
            ProcessFilter::Threads(_) | ProcessFilter::All => vec![None],
        };
        let read = |host: &Host| -> Vec<_> { pids.iter().flat_map(|pid| open_files(host, *pid)).collect() };
        let before: BTreeSet<_> = read(catalog.host()).into_iter().collect();
        self.live.start();
        let after = read(catalog.host());
        for (pid, number, name) in after.into_iter().filter(|file| before.contains(file)) {
            self.view.files.insert(pid, number, name);
        }
    }
}

impl Work for LiveCalls {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self {
            live,
            names,
            other,
            view,
            tally,
            ..
        } = self;
        other.poll()?;
        let mut show = |record: &Record<'_>| {
            tally.seen.insert((record.event.id.0, record.cpu));
            names.update(record, &mut view.processes);
            match is_own(record) {
                true => view.take(record),
                false => other.record(record, &mut view.out)?,
            }
            Ok(())
        };
        let came = match last {
            true => live.stop(&mut show)?,
            false => live.poll(&mut show)?,
        };
        self.tally.bytes += self.view.out.len() as u64;
        write_out(&mut self.view.out)?;
        let (full, frozen) = self.live.take_lost();
        if full + frozen > 0 {
            let print = || eprintln!("lost {}: the ring was full", counted(full + frozen, "event"));
            self.status.aside(print);
            // Descriptors may have been opened and closed in what is missing.
            self.view.files.clear();
        }
        self.tally.records += came as u64;
        self.tally.lost += full + frozen;
        self.other.report_unnamed();
        Ok(self.other.longest(pause(came, &self.live)))
    }

    fn figures(&mut self) -> String {
        self.tally.figures(self.live.session())
    }

    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        bells(&self.live)
    }
}

/// What becomes of calls: lines, or a table.
struct View {
    reader: Reader,
    pairing: Pairing,
    files: Descriptors,
    processes: Processes,
    /// The calls that are shown; `None` for all.
    wanted: Option<BTreeSet<String>>,
    failed_only: bool,
    /// The command's process until its exec: what Kestrel does in it before, it does for itself.
    before_exec: Option<u32>,
    format: Format,
    summary: Option<Summary>,
    /// Whether the standard output is a command's.
    is_shared: bool,
    /// How many calls were shown.
    shown: u64,
    out: Vec<u8>,
}

impl View {
    fn new(calls: &Calls, options: &CallOptions, format: Format, is_shared: bool) -> Self {
        Self {
            reader: Reader::new(calls.signatures.clone()),
            pairing: Pairing::default(),
            files: Descriptors::default(),
            processes: Processes::default(),
            wanted: calls.shown(),
            failed_only: options.failed_only,
            before_exec: None,
            format,
            summary: options.summary.then(|| Summary::new(options.by.into())),
            is_shared,
            shown: 0,
            out: Vec::new(),
        }
    }

    /// Whether some calls were asked for, and none of them was shown.
    fn is_without_lines(&self) -> bool {
        self.wanted.is_some() && self.shown == 0
    }

    fn take(&mut self, record: &Record<'_>) {
        let number = |field: &str| record.get(field).and_then(|value| value.as_u64());
        match record.event.name.as_str() {
            FORK => {
                if let Some(child) = number("child_pid") {
                    self.files.fork(record.pid, child as u32);
                }
                return;
            }
            EXIT => return self.files.remove(record.tid),
            _ => {}
        }
        let Some(moment) = self.reader.read(record) else {
            return;
        };
        if self.before_exec == Some(record.pid) && !is_exec(moment.signature()) {
            return;
        }
        let mut pairing = std::mem::take(&mut self.pairing);
        pairing.add((record.pid, record.tid), record.time_ns, moment, &mut |call| {
            self.done(&call)
        });
        self.pairing = pairing;
    }

    /// A call is over. Its arguments are shown as they were before it.
    fn done(&mut self, call: &Call) {
        if self.before_exec == Some(call.pid) {
            // Where it looks for the program along PATH, some fail.
            if call.end != End::Returned(0) {
                return;
            }
            self.before_exec = None;
        }
        if let Some(summary) = &mut self.summary {
            return summary.add(call);
        }
        self.show(call);
        self.files.follow(call);
    }

    fn show(&mut self, call: &Call) {
        let wanted = self
            .wanted
            .as_ref()
            .is_none_or(|wanted| wanted.contains(&call.signature.call));
        if !wanted || self.failed_only && call.error().is_none() {
            return;
        }
        let comm = self.processes.name(call.tid, call.pid);
        let text = match self.format {
            Format::Text => line(call, comm, &self.files, Style::default()),
            Format::Json => json(call, comm, &self.files),
        };
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
        self.shown += 1;
    }

    /// Shows what is left: calls that have not returned, or the table.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut left = Vec::new();
        self.pairing.finish(&mut |call| left.push(call));
        for call in &left {
            debug_assert!(matches!(call.end, End::Unfinished));
            self.done(call);
        }
        if let Some(summary) = self.summary.take() {
            let groups = summary.finish(&|tid, pid| self.processes.name(tid, pid).map(str::to_owned));
            match self.is_shared {
                true => write(&groups, self.format, &mut crate::screen::err())?,
                false => write(&groups, self.format, &mut crate::screen::out())?,
            }
        }
        write_out(&mut self.out)
    }
}

/// Says that none of the calls came that were asked for, and which others may have come in their place.
fn hint_at_others(calls: &Calls, failed_only: bool, records: u64) {
    let came = if failed_only { "failed" } else { "came" };
    match calls.later().as_slice() {
        // That nothing came at all is said anyway.
        [] if records == 0 => {}
        [] => eprintln!("hint: none of these calls {came}"),
        later => {
            let later = later.join(",");
            eprintln!(
                "hint: none of these calls {came}; libraries may make others in their place: --syscalls={later}"
            );
        }
    }
}

fn is_exec(signature: &Signature) -> bool {
    matches!(signature.call.as_str(), "execve" | "execveat")
}

/// Whether a record is of what calls are shown from, and not of an event of `-e`.
fn is_own(record: &Record<'_>) -> bool {
    let only = |field: &str| record.event.layout.shown().all(|it| it.name == field);
    match record.event.name.as_str() {
        RAW_ENTER | RAW_EXIT => true,
        FORK => only("child_pid"),
        EXIT => only("pid"),
        _ => false,
    }
}

/// Whether an event of `-e` is one of the tracepoints of system calls.
fn is_of_calls(event: &str) -> bool {
    event
        .split(',')
        .any(|one| one.trim_start().starts_with("raw_syscalls:"))
}
