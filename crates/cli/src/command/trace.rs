//! `kestrel trace`: events as lines while they happen.

mod lines;
mod names;
mod syscalls;

use crate::actor::{ActionOutcome, Actor};
use crate::arguments::{command_line, duration};
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach, hint_if_no_event, print_maps};
use crate::live::{Live as LiveView, LiveOption, maps};
use crate::output::Format;
use crate::output::losses::report_lost;
use crate::screen::set_quiet;
use crate::selection::{self, Selection};
use crate::status_line::{Figures, MissedSoFar, StatusLine, is_output_shared};
use clap::Args;
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::Host;
use kestrel::record::symbols_for;
use kestrel::script::{Outcome, Perform};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::tail::{Live, Unseen, Watch};
use kestrel::user_symbols::UserCode;
use kestrel_trace::event::EventClass;
use kestrel_trace::output::is_output;
use kestrel_trace::print::{counted, were};
use kestrel_trace::record::Record;
use lines::{LineFormat, Lines};
use names::ThreadNameLookup;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Options of `trace`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("live", |live| live.conflicts_with_all(["session", "syscalls"])))]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Watch a persistent session, from now on: the records of its buffers as they arrive. Buffers are only read: dumps,
    /// the agent and other watchers see the same records. NAME may be left out where there is only one session
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["events", "filters", "table", "pid", "tid", "cpu", "only_own", "all", "command", "buffer_size", "stacks", "call_graph", "kernel_stack", "via", "nested", "user", "dry_run", "syscalls"]
    )]
    session: Option<String>,
    /// Only these buffers of the session
    #[arg(long, value_name = "BUFFER,…", value_delimiter = ',', requires = "session")]
    buffer: Vec<String>,
    /// Start with the records of the last TIME that the buffers still hold
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "session")]
    since: Option<Duration>,
    #[command(flatten)]
    live: LiveOption,
    #[command(flatten)]
    calls: syscalls::CallOptions,
    /// Output format of each event
    #[arg(long, value_enum, default_value = "text")]
    format: LineFormat,
}

const EXAMPLES: &str = "\
Examples:
  kestrel trace -e syscalls:sys_enter_openat -- ls        what one command opens
  kestrel trace -e 'syscalls:sys_enter_openat { record(comm, str(args.filename)) }'
  kestrel trace -e 'sched:sched_switch /args.next_pid == 1/ { record(args.prev_comm, kstack) }'
  kestrel trace -g -e syscalls:sys_enter_openat -- ls     and from where in the program: stacks with names
  kestrel trace -e sched:sched_process_exec --format json --duration 10
  kestrel trace -e sched:sched_switch --filter 'prev_pid == 0 && next_comm ~ \"k*\"' --format tracefs
  kestrel trace -e @events.txt                            the events of a file as set_event has them
  kestrel trace -e 'jprobe:do_sys_openat2 { record(args.dfd, str(args.filename)) }'     calls as in C
  kestrel trace -e 'kprobe:ksys_read+0x12 { record(regs) }' -e 'kprobe:ksys_read+0x12:post { record(regs) }'
  kestrel trace -e 'kretprobe:vfs_read { record(entry.args.count, retval, took = nsecs - entry.nsecs) }'
  kestrel trace --syscalls -- ls                          system calls, as strace -f shows them
  kestrel trace --syscalls=%file,!stat -p 1234            those that take a file's name, but stat
  kestrel trace --syscalls --summary -- make              a table of calls, as strace -c
  kestrel trace --session                                 records of a running session as they arrive
  kestrel trace --session web --buffer main --since 10s --duration 60

Ctrl-C stops it. Records of a session that were overwritten before they could be shown are counted and reported. `kestrel list -v EVENT` shows the fields of an event.";

/// The pause between two polls while records wait for others that may be earlier.
const PAUSE_WHILE_WAITING: Duration = Duration::from_millis(10);
/// The pause where nothing waits and the session's bell will end it.
const PAUSE_WITH_BELL: Duration = Duration::from_millis(200);
/// The longest pause where nothing waits and no bell can end it.
const LONGEST_PAUSE_WITHOUT_BELL: Duration = Duration::from_millis(100);

/// Runs `kestrel trace`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    set_quiet(options.selection.quiet);
    if let Some(set) = &options.calls.traced.syscalls {
        if options.format == LineFormat::Tracefs {
            let failure = Failure::new(Exit::Usage, "--syscalls has no lines in the layout of tracefs");
            return Err(failure
                .hint("`-e 'syscalls:*' --format tracefs` shows entries and returns as trace_pipe does"));
        }
        return syscalls::run(set, &options.calls, &options.selection, options.format.beside());
    }
    if let Some(session) = &options.session {
        return watch(options, Some(session.as_str()).filter(|name| !name.is_empty()));
    }
    let selection = &options.selection;
    let catalog = selection::catalog(selection);
    let held = if selection.dry_run {
        None
    } else {
        selection::start_held(selection)?
    };
    let plan_of = match options.format {
        LineFormat::Tracefs => selection::plan_with_flags,
        _ => selection::plan,
    };
    let plan = plan_of(selection, held.as_ref(), (Mode::Stream, Bell::Records), &catalog)?;
    if selection::print_plan(selection, &plan)? {
        return Ok(Exit::Done);
    }
    // Before the session is begun: where the terminal or a signal cannot be had, no program is loaded.
    let status = status_line(selection);
    let view = options.live.view(selection.shares_terminal())?;
    let mut foreground = Foreground::new(selection.duration)?
        .with_target(&plan.target, catalog.host())
        .with_status_line(&status);
    let live = Live::ordered(Session::start(&plan, &catalog, &command_line())?);
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    let names = ThreadNameLookup::new(live.session().kept_names()?, catalog.host());
    let in_maps = live.session().has_user_stacks_in_maps();
    let code = lines::follow(live.session().classes(), in_maps, catalog.host());
    let is_json = options.format == LineFormat::Json;
    let mut perform = Perform::new(symbols.clone(), catalog.host().clone(), is_json);
    // Strings of others could command the terminal that shows them; JSON spells control characters out by itself.
    perform.escaped = !is_json && crate::screen::shows_programs();
    let prints = |event: &EventClass| {
        event
            .action
            .as_ref()
            .is_some_and(|action| is_output(&action.verb))
    };
    // A kernel or sandbox may not let processes be followed: events are worth showing without names of their code.
    if live.session().classes().iter().any(prints) {
        perform.follow(live.session()).unwrap_or_else(|error| {
            remark!("stacks of processes show addresses: {error}");
        });
    }
    let mut shown = LiveTrace {
        perform,
        exit: None,
        lines: Lines::new(options.format, symbols, names, code),
        actor: selection.rights.actor(catalog.host(), options.format.beside())?,
        tally: Tally::default(),
        out: Vec::new(),
        live,
        view,
        status,
    };
    // The command is released only when events are let in, so that its first ones are seen.
    shown.live.start();
    foreground.release(held)?;
    foreground.run(&mut shown)?;
    let LiveTrace {
        live,
        mut actor,
        tally,
        mut lines,
        exit,
        ..
    } = shown;
    actor.finish();
    let shown = (options.format.beside(), selection.verbose);
    end(live, lines.code(), (&tally, &plan.target), catalog.host(), shown)?;
    match exit {
        Some(code) if code != 0 => Ok(Exit::of_script(code)),
        _ => Ok(foreground.exit()),
    }
}

/// Says what is missing, prints maps and detaches.
fn end(
    mut live: Live,
    code: Option<&mut UserCode>,
    (tally, target): (&Tally, &ProcessFilter),
    host: &Host,
    (format, verbose): (Format, bool),
) -> Result<(), Failure> {
    report_lost(&live.lost());
    for gap in live.session().module_gaps() {
        eprintln!("{gap}");
    }
    let missed = live.session().missed()?;
    for missed in missed.iter().filter(|it| !it.is_nothing()) {
        eprintln!("{missed}");
    }
    let hits = missed
        .iter()
        .filter_map(|missed| missed.count.as_ref().ok())
        .sum();
    if let Some(uncounted) = live.session().uncounted()?
        && (verbose || uncounted.matters(hits, tally.seen.iter().copied()))
    {
        remark!("{uncounted}");
    }
    hint_if_no_event(tally.came(), live.session(), target);
    print_maps(live.session(), host, code, format == Format::Json)?;
    detach(live.session_mut());
    Ok(())
}

/// Shows the records of a persistent session until it is stopped or the foreground run ends.
fn watch(options: &Options, session: Option<&str>) -> Result<Exit, Failure> {
    let host = Host::default();
    let mut foreground = Foreground::new(options.selection.duration)?;
    let store = crate::sessions::store(&host)?;
    let watch = Watch::open(store, session, &options.buffer, options.since)?;
    remark!(
        "watching session {}; Ctrl-C ends this, not the session",
        watch.name()
    );
    let symbols = symbols_for(watch.classes(), &host);
    let names = ThreadNameLookup::new(watch.thread_names()?, &host);
    let code = lines::follow(watch.classes(), false, &host);
    let mut watched = WatchedSession {
        lines: Lines::new(options.format, symbols, names, code),
        out: Vec::new(),
        watch,
        pause: PAUSE_WHILE_WAITING,
    };
    foreground.run(&mut watched)?;
    let watch = watched.watch;
    match watch.missing() {
        Some(0) => {}
        Some(missing) => print_overwritten(missing, "event"),
        None => eprintln!(
            "how many events were in the packets that were overwritten before they could be shown is not known"
        ),
    }
    if watch.has_ended() {
        remark!("the session has ended");
    }
    Ok(Exit::Done)
}

fn print_overwritten(count: u64, noun: &str) {
    let (count, were) = (counted(count, noun), were(count));
    eprintln!("{count} {were} overwritten before they could be shown");
}

fn report_unseen(unseen: Unseen) {
    let Unseen { packets, lost } = unseen;
    if packets > 0 {
        print_overwritten(packets, "packet");
    }
    if lost > 0 {
        eprintln!(
            "{} {} lost: a stream buffer was full, or a buffer was frozen",
            counted(lost, "event"),
            were(lost)
        );
    }
}

/// Live tracing: records are printed as they are read.
struct LiveTrace {
    live: Live,
    lines: Lines,
    actor: Actor,
    /// Prints what handlers print.
    perform: Perform,
    /// The code of `exit`, once a handler has called it.
    exit: Option<i64>,
    tally: Tally,
    out: Vec<u8>,
    /// Live values of maps.
    view: LiveView,
    status: StatusLine,
}

/// Tally of a live view's records.
#[derive(Debug, Default)]
struct Tally {
    records: u64,
    /// Which events came, and to which CPUs.
    seen: BTreeSet<(u16, u32)>,
    lost: u64,
    /// System calls that were shown although they began before the trace.
    in_progress: u64,
    /// Bytes of output.
    bytes: u64,
    missed: MissedSoFar,
}

impl Tally {
    /// The number of records, lost ones and calls in progress included.
    fn came(&self) -> u64 {
        self.records + self.lost + self.in_progress
    }

    fn figures(&mut self, session: &Session) -> String {
        let figures = Figures {
            events: self.records,
            bytes: self.bytes,
            lost: self.lost,
            overwritten: 0,
            missed: self.missed.of(session),
        };
        figures.text()
    }
}

/// The status line of a live view whose lines go to a file; on a terminal, its lines are what is shown.
fn status_line(selection: &Selection) -> StatusLine {
    let is_shared = selection.shares_terminal() || is_output_shared();
    StatusLine::new("tracing", selection.duration, is_shared)
}

impl Work for LiveTrace {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self {
            live,
            lines,
            actor,
            perform,
            exit,
            out,
            tally,
            ..
        } = self;
        lines.poll()?;
        perform.poll()?;
        let mut behind_exit = 0;
        let mut show = |mut session: &Session, record: &Record<'_>| {
            tally.seen.insert((record.event.id.0, record.cpu));
            // Other CPUs wrote on until the exit was read: none of that is output any more.
            if exit.is_some() {
                behind_exit += 1;
                return Ok(());
            }
            match &record.event.action {
                None => lines.record(record, out)?,
                Some(action) if is_output(&action.verb) => {
                    if let Outcome::Exit(code) = perform.record(&mut session, record)? {
                        *exit = Some(code);
                    }
                    out.append(&mut perform.out);
                }
                Some(action) => {
                    if actor.act("", action, record, out) == ActionOutcome::Later {
                        actor.leave_out(action);
                    }
                }
            }
            Ok(())
        };
        let came = match last {
            true => live.stop_with(&mut show)?,
            false => live.poll_with(&mut show)?,
        };
        live.session_mut().unwatch(&mut perform.unwatched);
        self.tally.bytes += out.len() as u64;
        // Lines scroll in the place of the live view, which is drawn anew below them.
        if last || !out.is_empty() {
            self.view.erase()?;
        }
        write_out(out)?;
        if !perform.err.is_empty() {
            let printed = std::mem::take(&mut perform.err);
            self.status.aside(|| _ = crate::screen::err().write_all(&printed));
        }
        actor.report_ended();
        let (full, frozen) = live.take_lost();
        for (lost, why) in [(full, "the ring was full"), (frozen, "the buffer was frozen")] {
            if lost > 0 {
                self.view.erase()?;
                let print = || eprintln!("lost {}: {why}", counted(lost, "event"));
                self.status.aside(print);
            }
        }
        self.tally.records += came as u64 - behind_exit;
        self.tally.lost += full + frozen;
        self.lines.report_unnamed();
        if !last {
            let session = self.live.session();
            self.view.show(|| maps(session, session.host()))?;
        }
        let pause = self.lines.longest(pause(came, &self.live));
        Ok(self.view.pause(pause))
    }

    fn has_ended(&self) -> bool {
        self.exit.is_some()
    }

    fn figures(&mut self) -> String {
        self.tally.figures(self.live.session())
    }

    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        bells(&self.live)
    }
}

/// Watching a persistent session: its records are printed as they are read.
struct WatchedSession {
    watch: Watch,
    lines: Lines,
    out: Vec<u8>,
    /// The pause before the next poll if nothing has come: longer each time.
    pause: Duration,
}

impl Work for WatchedSession {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self {
            watch, lines, out, ..
        } = self;
        lines.poll()?;
        let mut show = |record: &Record<'_>| lines.record(record, out);
        let came = match last {
            true => watch.finish(&mut show)?,
            false => watch.poll(&mut show)?,
        };
        write_out(out)?;
        report_unseen(watch.take_unseen());
        lines.report_unnamed();
        if came > 0 {
            self.pause = PAUSE_WHILE_WAITING;
            return Ok(Duration::ZERO);
        }
        self.pause = match watch.has_waiting() {
            true => PAUSE_WHILE_WAITING,
            false => LONGEST_PAUSE_WITHOUT_BELL.min(2 * self.pause),
        };
        Ok(self.lines.longest(self.pause))
    }

    fn has_ended(&self) -> bool {
        self.watch.has_ended()
    }
}

/// The time to sleep before the next poll: none while records arrive.
fn pause(came: usize, live: &Live) -> Duration {
    match came {
        0 if live.has_waiting() => PAUSE_WHILE_WAITING,
        0 => PAUSE_WITH_BELL,
        _ => Duration::ZERO,
    }
}

/// Descriptors whose readiness ends the pause: the session's bell, rung by the first record. While records wait it is left out: where scheduler events are
/// traced, our own waking up is such an event and would wake us again.
fn bells(live: &Live) -> Vec<BorrowedFd<'_>> {
    let bell = live.session().bell();
    bell.filter(|_| !live.has_waiting()).into_iter().collect()
}

fn write_out(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut stdout = crate::screen::out();
    stdout.write_all(out)?;
    stdout.flush()?;
    out.clear();
    Ok(())
}
