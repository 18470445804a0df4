//! `kestrel trace`: events as lines while they happen.

mod lines;
mod names;
mod syscalls;

use crate::actor::{ActionOutcome, Actor};
use crate::arguments::{command_line, duration};
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach, hint_if_no_event, print_maps};
use crate::output::Format;
use crate::output::losses::report_lost;
use crate::selection::{self, Selection};
use clap::Args;
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::Host;
use kestrel::record::symbols_for;
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::tail::{Live, Unseen, Watch};
use kestrel::user_symbols::UserCode;
use kestrel_trace::print::{counted, were};
use kestrel_trace::record::Record;
use lines::Lines;
use names::ThreadNameLookup;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Options of `trace`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
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
        conflicts_with_all = ["events", "table", "pid", "all", "command", "buffer_size", "stacks", "call_graph", "kernel_stack", "via", "nested", "user", "dry_run"]
    )]
    session: Option<String>,
    /// Only these buffers of the session
    #[arg(long, value_name = "BUFFER,…", value_delimiter = ',', requires = "session")]
    buffer: Vec<String>,
    /// Start with the records of the last TIME that the buffers still hold
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "session")]
    since: Option<Duration>,
    #[command(flatten)]
    calls: syscalls::CallOptions,
    /// How lines look
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  kestrel trace -e syscalls:sys_enter_openat -- ls        what one command opens
  kestrel trace -e 'syscalls:sys_enter_openat { record(comm, str(args.filename)) }'
  kestrel trace -e 'sched:sched_switch /args.next_pid == 1/ { record(args.prev_comm, kstack) }'
  kestrel trace -g -e syscalls:sys_enter_openat -- ls     and from where in the program: stacks with names
  kestrel trace -e sched:sched_process_exec --format json --duration 10
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
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The pause where nothing waits and the first record will end it.
const CALM: Duration = Duration::from_millis(200);
/// The longest pause where nothing waits and no record can end it.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Traces.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(set) = &options.calls.syscalls {
        return syscalls::run(set, &options.calls, &options.selection, options.format);
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
    let plan = selection::plan(selection, held.as_ref(), (Mode::Stream, Bell::Records), &catalog)?;
    if selection::print_plan(selection, &plan)? {
        return Ok(Exit::Done);
    }
    let mut foreground = Foreground::new(selection.duration)?.with_process(selection.pid);
    let live = Live::ordered(Session::start(&plan, &catalog, &command_line())?);
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    let names = ThreadNameLookup::new(live.session().kept_names()?, catalog.host());
    let in_maps = live.session().has_user_stacks_in_maps();
    let code = lines::follow(live.session().classes(), in_maps, catalog.host());
    let mut shown = LiveTrace {
        lines: Lines::new(options.format, symbols, names, code),
        actor: selection.rights.actor(catalog.host(), options.format)?,
        came: 0,
        out: Vec::new(),
        live,
    };
    // The command is released only when events are let in, so that its first ones are seen.
    shown.live.start();
    foreground.release(held)?;
    foreground.run(&mut shown)?;
    let LiveTrace {
        live,
        mut actor,
        came,
        mut lines,
        ..
    } = shown;
    actor.finish();
    end(
        live,
        lines.code(),
        (came, plan.target),
        catalog.host(),
        options.format,
    )?;
    Ok(foreground.exit())
}

/// Says what is missing, prints maps and detaches.
fn end(
    mut live: Live,
    code: Option<&mut UserCode>,
    (came, target): (u64, ProcessFilter),
    host: &Host,
    format: Format,
) -> Result<(), Failure> {
    report_lost(&live.lost());
    for gap in live.session().module_gaps() {
        eprintln!("{gap}");
    }
    for missed in live.session().missed()?.iter().filter(|it| !it.is_nothing()) {
        eprintln!("{missed}");
    }
    if let Some(why) = live.session().uncounted()? {
        eprintln!("not all missed hits are counted: {why}");
    }
    hint_if_no_event(came, live.session(), target);
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
    eprintln!(
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
        pause: POLL_INTERVAL,
    };
    foreground.run(&mut watched)?;
    let watch = watched.watch;
    match watch.missing() {
        Some(0) => {}
        Some(missing) => eprintln!(
            "{} {} overwritten before they could be shown",
            counted(missing, "event"),
            were(missing)
        ),
        None => eprintln!(
            "how many events were in the packets that were overwritten before they could be shown is not known"
        ),
    }
    if watch.has_ended() {
        eprintln!("the session has ended");
    }
    Ok(Exit::Done)
}

fn report_unseen(unseen: Unseen) {
    let Unseen { packets, lost } = unseen;
    if packets > 0 {
        eprintln!(
            "{} {} overwritten before they could be shown",
            counted(packets, "packet"),
            were(packets)
        );
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
    /// The number of records, lost ones included.
    came: u64,
    out: Vec<u8>,
}

impl Work for LiveTrace {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self {
            live,
            lines,
            actor,
            out,
            ..
        } = self;
        lines.poll()?;
        let mut show = |record: &Record<'_>| {
            match &record.event.action {
                None => lines.record(record, out)?,
                Some(action) => {
                    if actor.act("", action, record, out) == ActionOutcome::Later {
                        actor.leave_out(action);
                    }
                }
            }
            Ok(())
        };
        let came = match last {
            true => live.stop(&mut show)?,
            false => live.poll(&mut show)?,
        };
        write_out(out)?;
        actor.report_ended();
        let (full, frozen) = live.take_lost();
        for (lost, why) in [(full, "the ring was full"), (frozen, "the buffer was frozen")] {
            if lost > 0 {
                eprintln!("lost {}: {why}", counted(lost, "event"));
            }
        }
        self.came += came as u64 + full + frozen;
        self.lines.report_unnamed();
        Ok(self.lines.longest(pause(came, &self.live)))
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.live.session().bell()
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
            self.pause = POLL_INTERVAL;
            return Ok(Duration::ZERO);
        }
        if !watch.has_waiting() {
            self.pause = LONGEST_PAUSE.min(2 * self.pause);
        }
        Ok(self.lines.longest(self.pause))
    }

    fn has_ended(&self) -> bool {
        self.watch.has_ended()
    }
}

/// The time to sleep before the next poll: none while records arrive.
fn pause(came: usize, live: &Live) -> Duration {
    match came {
        0 if live.has_waiting() => POLL_INTERVAL,
        0 => CALM,
        _ => Duration::ZERO,
    }
}

fn write_out(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut stdout = crate::screen::out();
    stdout.write_all(out)?;
    stdout.flush()?;
    out.clear();
    Ok(())
}
