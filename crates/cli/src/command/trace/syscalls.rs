//! `kestrel trace --syscalls`: a line for each system call, or a table of them at the end.

use super::lines::{self, Lines};
use super::names::ThreadNameLookup;
use super::{LineFormat, Tally, bells, end, pause, status_line, write_out};
use crate::arguments::{command_line, typed};
use crate::calls::{Between, Only, Traced, files_of, traced};
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work};
use crate::output::Format;
use crate::output::calls::{By, write};
use crate::selection::{self, Selection};
use crate::status_line::StatusLine;
use clap::Args;
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::{Host, procfs};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::syscalls::{CallsInProgress, Detail};
use kestrel::tail::Live;
use kestrel_trace::calls::{Signatures, Summary};
use kestrel_trace::export::{Calls, Layout, Shown, Style};
use kestrel_trace::print::counted;
use kestrel_trace::record::Record;
use kestrel_trace::syscall::Set;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Options about system calls.
#[derive(Args, Debug)]
#[command(mut_arg("signal", |it| it.requires("syscalls")), mut_arg("no_exits", |it| it.requires("syscalls")))]
#[command(mut_arg("failed_only", |it| it.requires("syscalls").conflicts_with("summary")))]
#[command(mut_arg("slower_than", |it| it.requires("syscalls").conflicts_with("summary")))]
pub(crate) struct CallOptions {
    #[command(flatten)]
    pub(super) traced: Traced,
    /// Count the calls and show a table of them at the end, as strace -c does; with a COMMAND, whose standard output that is, on standard error
    #[arg(short, long, requires = "syscalls", conflicts_with_all = ["stacks", "call_graph", "kernel_stack"])]
    summary: bool,
    #[command(flatten)]
    only: Only,
    #[command(flatten)]
    between: Between,
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
    hint_at_slow_calls(selection);
    let catalog = selection::catalog(selection);
    let held = match selection.dry_run {
        true => None,
        false => selection::start_held(selection)?,
    };
    let detail = match options.summary {
        true => Detail::NumberAndResult,
        false => Detail::ArgumentsToo,
    };
    let (asked, events) = traced(set, selection, &catalog, detail)?;
    let mode = (Mode::Stream, Bell::Records);
    let plan = selection::plan_of(&events, selection, held.as_ref(), mode, &catalog)?;
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
        calls: view(&asked, set, options, (format, &plan.target)),
        out: Vec::new(),
        tally: Tally::default(),
        live,
        status,
    };
    if let ProcessFilter::Command(pid) = plan.target {
        shown.live.session().admit_before_exec(pid)?;
    }
    if !options.summary {
        shown.begin(&plan.target, &asked.signatures, &catalog);
        write_out(&mut shown.out)?;
    } else {
        shown.live.start();
    }
    foreground.release(held)?;
    foreground.run(&mut shown)?;
    let LiveCalls {
        live,
        mut calls,
        mut other,
        tally,
        mut out,
        ..
    } = shown;
    // Calls that have not returned, or the table.
    if let Some(summary) = calls.finish(Some(other.printer()), &mut out) {
        let groups = summary.finish(&|tid, pid| calls.name(tid, pid).map(str::to_owned));
        match plan.target {
            // The standard output is the command's.
            ProcessFilter::Command(_) => write(&groups, format, &mut crate::screen::err())?,
            _ => write(&groups, format, &mut crate::screen::out())?,
        }
    }
    write_out(&mut out)?;
    if !options.summary && asked.is_subset() && calls.lines() == 0 && tally.lost == 0 {
        hint_at_others(&asked, options.only.missing(), tally.came());
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
    calls: Calls,
    out: Vec<u8>,
    tally: Tally,
    status: StatusLine,
}

impl LiveCalls {
    /// Lets calls in, and shows those that the processes of `-p` are in. These, and what descriptors mean, are read before and after: what is the same then was so in between.
    fn begin(&mut self, target: &ProcessFilter, signatures: &Signatures, catalog: &Catalog) {
        let host = catalog.host();
        let (before, waiting) = (files_of(target, host), in_progress_of(target, host, signatures));
        for (pid, error) in &waiting.unread {
            remark!("the system call that process {pid} is in is not known: {error}");
        }
        let time_ns = procfs::monotonic();
        self.live.start();
        let (still, after) = (in_progress_of(target, host, signatures), files_of(target, host));
        for (pid, number, name) in before.intersection(&after) {
            self.calls.open(*pid, *number, name.as_str());
        }
        for call in waiting.calls.iter().filter(|call| still.calls.contains(call)) {
            if let Ok(name) = procfs::comm_bytes(host, call.tid) {
                self.calls.processes_mut().insert(call.tid, name);
            }
            self.calls.in_progress(call, time_ns, &mut self.out);
        }
        self.tally.in_progress = self.calls.lines();
    }
}

/// The calls that threads of the chosen processes are in; none where no process is named.
fn in_progress_of(target: &ProcessFilter, host: &Host, signatures: &Signatures) -> CallsInProgress {
    let mut found = CallsInProgress::default();
    if let ProcessFilter::Processes(pids) = target {
        for pid in pids {
            found.read(host, *pid, signatures);
        }
    }
    found
}

/// Handles the calls of a view.
fn view(
    calls: &kestrel::syscalls::Calls,
    set: &str,
    options: &CallOptions,
    (format, target): (Format, &ProcessFilter),
) -> Calls {
    let mut shown = Shown::of([Set::parse(set)]);
    options.only.choose(&mut shown);
    options.between.choose(&mut shown);
    if let ProcessFilter::Command(pid) = target {
        shown.before_exec = Some(*pid);
    }
    let layout = match format {
        Format::Text => Layout::Lines,
        Format::Json => Layout::Json,
    };
    let view = Calls::new(calls.signatures.clone(), shown, layout, Style::default());
    match options.summary {
        true => view.counted(Summary::new(options.by.into())),
        false => view,
    }
}

impl Work for LiveCalls {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self {
            live,
            names,
            other,
            calls,
            out,
            tally,
            ..
        } = self;
        other.poll()?;
        let mut show = |record: &Record<'_>| {
            tally.seen.insert((record.event.id.0, record.cpu));
            names.update(record, calls.processes_mut());
            match Calls::is_own(record.event) {
                true => other.call(record, calls, out)?,
                false => other.record(record, out)?,
            }
            Ok(())
        };
        let came = match last {
            true => live.stop(&mut show)?,
            false => live.poll(&mut show)?,
        };
        self.tally.bytes += self.out.len() as u64;
        write_out(&mut self.out)?;
        let (full, frozen) = self.live.take_lost();
        if full + frozen > 0 {
            let print = || eprintln!("lost {}: the ring was full", counted(full + frozen, "event"));
            self.status.aside(print);
            self.calls.lose();
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

/// Says how slow calls are chosen where a number alone with a command may mean what it means to perf: the milliseconds that a shown call takes at least.
fn hint_at_slow_calls(selection: &Selection) {
    let is_asked = selection.duration.is_some() && !selection.command.is_empty();
    let limit = typed("--duration").filter(|_| is_asked);
    if let Some(number) = limit.filter(|limit| limit.parse::<f64>().is_ok()) {
        remark!(
            "hint: --duration {number} ends the trace after so many seconds; calls that take {number} ms or longer are --slower-than {number}ms"
        );
    }
}

/// Says that none of the calls came that were asked for, and which others may have come in their place.
fn hint_at_others(calls: &kestrel::syscalls::Calls, came: &str, records: u64) {
    match calls.newer_variants().as_slice() {
        // That nothing came at all is said anyway.
        [] if records == 0 => {}
        [] => remark!("hint: none of these calls {came}"),
        later => {
            let later = later.join(",");
            remark!(
                "hint: none of these calls {came}; libraries may make others in their place: --syscalls={later}"
            );
        }
    }
}
