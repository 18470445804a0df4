//! `kestrel trace`: events as lines while they happen.

use crate::actor::{ActionOutcome, Actor};
use crate::arguments::{command_line, duration};
use crate::call_graph::CallGraph;
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach, hint_if_no_event, print_maps};
use crate::output::Format;
use crate::output::losses::report_lost;
use crate::selection::{self, Selection};
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::Host;
use kestrel::record::symbols_for;
use kestrel::session::Session;
use kestrel::session::pinned::ThreadNames;
use kestrel::tail::{Live, Unseen, Watch};
use kestrel_trace::export::{Export, Json, Style, Text};
use kestrel_trace::print::{counted, were};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

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
    /// How lines look
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  kestrel trace -e syscalls:sys_enter_openat -- ls        what one command opens
  kestrel trace -e 'syscalls:sys_enter_openat { record(comm, str(args.filename)) }'
  kestrel trace -e 'sched:sched_switch /args.next_pid == 1/ { record(args.prev_comm, kstack) }'
  kestrel trace -e sched:sched_process_exec --format json --duration 10
  kestrel trace -e 'jprobe:do_sys_openat2 { record(args.dfd, str(args.filename)) }'     calls as in C
  kestrel trace -e 'kprobe:ksys_read+0x12 { record(regs) }' -e 'kprobe:ksys_read+0x12:post { record(regs) }'
  kestrel trace -e 'kretprobe:vfs_read { record(entry.args.count, retval, took = nsecs - entry.nsecs) }'
  kestrel trace --session                                 records of a running session as they arrive
  kestrel trace --session web --buffer main --since 10s --duration 60

Ctrl-C stops it. Records of a session that were overwritten before they could be shown are counted and reported. `kestrel list -v EVENT` shows the fields of an event.";

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Appends a record as a line of text or JSON.
type PrintRecord = Box<dyn FnMut(&Record<'_>, &mut Vec<u8>)>;

/// Traces.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(session) = &options.session {
        return watch(options, Some(session.as_str()).filter(|name| !name.is_empty()));
    }
    let selection = &options.selection;
    selection.call_graph.map_or(Ok(()), CallGraph::live)?;
    let catalog = selection::catalog(selection);
    let held = if selection.dry_run {
        None
    } else {
        selection::start_held(selection)?
    };
    let plan = selection::plan(selection, held.as_ref(), (Mode::Stream, false), &catalog)?;
    if selection::print_plan(selection, &plan)? {
        return Ok(Exit::Done);
    }
    let mut foreground = Foreground::new(selection.duration)?.with_process(selection.pid);
    let live = Live::ordered(Session::start(&plan, &catalog, &command_line())?);
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    let names = ThreadNameLookup::new(live.session().kept_names()?, catalog.host());
    let mut shown = LiveTrace {
        line: printer(options.format, symbols, names),
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
        mut live,
        mut actor,
        came,
        ..
    } = shown;
    actor.finish();
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
    hint_if_no_event(came, live.session(), plan.target);
    print_maps(live.session(), catalog.host(), options.format == Format::Json)?;
    detach(live.session_mut());
    Ok(foreground.exit())
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
    let mut watched = WatchedSession {
        line: printer(options.format, symbols, names),
        out: Vec::new(),
        watch,
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

fn printer(format: Format, symbols: Symbols, mut names: ThreadNameLookup) -> PrintRecord {
    let processes = Processes::default();
    let mut printer: Box<dyn Export> = match format {
        Format::Json => Box::new(Json::new(symbols, processes)),
        Format::Text => Box::new(Text::new(Style::default(), symbols, processes)),
    };
    Box::new(move |record, out| {
        names.update(record, printer.processes_mut());
        printer.record(record, out);
    })
}

/// Names of threads, from the session's map of names (threads may exit before their records are shown) and from /proc.
struct ThreadNameLookup {
    kept: ThreadNames,
    host: Host,
    /// Time of the last lookup per thread.
    looked_up: HashMap<u32, Instant>,
}

impl ThreadNameLookup {
    fn new(kept: ThreadNames, host: &Host) -> Self {
        Self {
            kept,
            host: host.clone(),
            looked_up: HashMap::new(),
        }
    }

    /// Updates the name of a record's thread.
    fn update(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let now = Instant::now();
        let looked_up = self.looked_up.get(&record.tid);
        if record.tid == 0 || looked_up.is_some_and(|looked_up| now - *looked_up < POLL_INTERVAL) {
            return;
        }
        self.looked_up.insert(record.tid, now);
        if let Some(name) = self.kept.name(record.tid) {
            processes.insert(record.tid, name);
        } else if processes.name(record.tid, record.pid).is_none()
            && let Ok(name) = kestrel::kernel::procfs::comm(&self.host, record.tid)
        {
            processes.insert(record.tid, name);
        }
    }
}

/// Live tracing: records are printed as they are read.
struct LiveTrace {
    live: Live,
    line: PrintRecord,
    actor: Actor,
    /// The number of records, lost ones included.
    came: u64,
    out: Vec<u8>,
}

impl Work for LiveTrace {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self {
            live,
            line,
            actor,
            out,
            ..
        } = self;
        let mut show = |record: &Record<'_>| {
            match &record.event.action {
                None => line(record, out),
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
        Ok(idle_time(came))
    }
}

/// Watching a persistent session: its records are printed as they are read.
struct WatchedSession {
    watch: Watch,
    line: PrintRecord,
    out: Vec<u8>,
}

impl Work for WatchedSession {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let Self { watch, line, out } = self;
        let mut show = |record: &Record<'_>| {
            line(record, out);
            Ok(())
        };
        let came = match last {
            true => watch.finish(&mut show)?,
            false => watch.poll(&mut show)?,
        };
        write_out(out)?;
        report_unseen(watch.take_unseen());
        Ok(idle_time(came))
    }

    fn has_ended(&self) -> bool {
        self.watch.has_ended()
    }
}

/// The time to sleep before the next poll: none while records arrive.
fn idle_time(came: usize) -> Duration {
    if came == 0 { POLL_INTERVAL } else { Duration::ZERO }
}

fn write_out(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut stdout = crate::screen::out();
    stdout.write_all(out)?;
    stdout.flush()?;
    out.clear();
    Ok(())
}
