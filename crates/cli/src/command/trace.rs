//! `kestrel trace`: events as lines while they happen.

use super::Format;
use super::record::{command_line, detach, end, ended, exit, hint_if_nothing, show_maps, tell_lost};
use crate::actor::{Acted, Actor};
use crate::exit::{Exit, Failure};
use crate::selection::{self, Ends, Selection};
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::Host;
use kestrel::kernel::process::Interrupt;
use kestrel::live::Live;
use kestrel::record::symbols_for;
use kestrel::session::Session;
use kestrel::session::pinned::ThreadNames;
use kestrel::watch::{Unseen, Watch};
use kestrel_trace::export::{Export, Json, Style, Text};
use kestrel_trace::print::{counted, were};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::collections::HashMap;
use std::io::Write;
use std::process::{Child, ExitStatus};
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
        conflicts_with_all = ["events", "table", "pid", "all", "command", "buffer_size", "stacks", "kernel_stack", "via", "nested", "user", "dry_run"]
    )]
    session: Option<String>,
    /// Only these buffers of the session
    #[arg(long, value_name = "BUFFER,…", value_delimiter = ',', requires = "session")]
    buffer: Vec<String>,
    /// Start with the records of the last TIME that the buffers still hold
    #[arg(long, value_name = "TIME", value_parser = selection::duration, requires = "session")]
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

const NAP: Duration = Duration::from_millis(10);

/// Writes one record's line.
type Line = Box<dyn FnMut(&Record<'_>, &mut Vec<u8>)>;

/// Where records go, and how many came, those that were lost among them.
struct Shown<'c> {
    line: Line,
    actor: &'c mut Actor,
    came: &'c mut u64,
}

/// Traces.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(session) = &options.session {
        return watch(options, Some(session.as_str()).filter(|name| !name.is_empty()));
    }
    let selection = &options.selection;
    let catalog = selection::catalog(selection);
    let held = if selection.dry_run {
        None
    } else {
        selection::hold(selection)?
    };
    let plan = selection::plan(selection, held.as_ref(), (Mode::Stream, false), &catalog)?;
    if selection::show(selection, &plan)? {
        return Ok(Exit::Done);
    }
    let ends = Ends::watch(selection)?;
    let mut live = Live::ordered(Session::start(&plan, &catalog, &command_line())?);
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    let names = Names::new(live.session().kept_names()?, catalog.host());
    let mut actor = selection.rights.actor(catalog.host(), options.format)?;
    let line = printer(options.format, symbols, names);
    live.start();
    let mut child = held.map(selection::release).transpose()?;
    let mut came = 0;
    let shown = Shown {
        line,
        actor: &mut actor,
        came: &mut came,
    };
    let followed = follow(&mut live, shown, child.as_mut(), selection.duration, &ends);
    let status = match &followed {
        Ok(Some(status)) => Some(*status),
        _ => {
            end(child)?;
            None
        }
    };
    followed?;
    actor.finish();
    tell_lost(&live.lost());
    for gap in live.session().module_gaps() {
        eprintln!("{gap}");
    }
    for missed in live.session().missed()?.iter().filter(|it| !it.is_nothing()) {
        eprintln!("{missed}");
    }
    if let Some(why) = live.session().uncounted()? {
        eprintln!("not all that the kernel skipped is counted: {why}");
    }
    hint_if_nothing(came, live.session(), plan.target);
    show_maps(live.session(), catalog.host(), options.format == Format::Json)?;
    detach(live.session_mut());
    Ok(exit(status.filter(|_| !ends.requested())))
}

/// Shows what a session takes until it ends, the time ends, or somebody asks us to stop.
fn watch(options: &Options, session: Option<&str>) -> Result<Exit, Failure> {
    let host = Host::default();
    let interrupt = Interrupt::install()?;
    let mut watch = Watch::open(
        crate::sessions::store(&host)?,
        session,
        &options.buffer,
        options.since,
    )?;
    eprintln!(
        "watching session {}; Ctrl-C ends this, not the session",
        watch.name()
    );
    let symbols = symbols_for(watch.classes(), &host);
    let names = Names::new(watch.thread_names()?, &host);
    let mut line = printer(options.format, symbols, names);
    let deadline = options.selection.duration.map(|d| Instant::now() + d);
    let mut out = Vec::new();
    loop {
        let last =
            interrupt.requested() || watch.has_ended() || deadline.is_some_and(|d| Instant::now() >= d);
        let mut show = |record: &Record<'_>| {
            line(record, &mut out);
            Ok(())
        };
        let came = match last {
            true => watch.finish(&mut show)?,
            false => watch.poll(&mut show)?,
        };
        flush(&mut out)?;
        tell_unseen(watch.take_unseen());
        if last {
            break;
        }
        if came == 0 {
            std::thread::sleep(NAP);
        }
    }
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

fn tell_unseen(unseen: Unseen) {
    let Unseen { packets, refused } = unseen;
    if packets > 0 {
        eprintln!(
            "missed {}: overwritten before they could be shown",
            counted(packets, "packet")
        );
    }
    if refused > 0 {
        eprintln!(
            "{} {} refused by the session's buffers: a full stream, or a frozen buffer",
            counted(refused, "event"),
            were(refused)
        );
    }
}

fn printer(format: Format, symbols: Symbols, mut names: Names) -> Line {
    let processes = Processes::default();
    let mut printer: Box<dyn Export> = match format {
        Format::Json => Box::new(Json::new(symbols, processes)),
        Format::Text => Box::new(Text::new(Style::default(), symbols, processes)),
    };
    Box::new(move |record, out| {
        names.learn(record, printer.processes_mut());
        printer.record(record, out);
    })
}

/// Where names of threads come from: what the session keeps of those that appear or change theirs, which may be gone before their records are
/// shown, and /proc for the others.
struct Names {
    kept: ThreadNames,
    host: Host,
    /// When it was last asked for each.
    asked: HashMap<u32, Instant>,
}

impl Names {
    fn new(kept: ThreadNames, host: &Host) -> Self {
        Self {
            kept,
            host: host.clone(),
            asked: HashMap::new(),
        }
    }

    /// Takes the newest name of who made a record.
    fn learn(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let now = Instant::now();
        let asked = self.asked.get(&record.tid);
        if record.tid == 0 || asked.is_some_and(|asked| now - *asked < NAP) {
            return;
        }
        self.asked.insert(record.tid, now);
        if let Some(name) = self.kept.name(record.tid) {
            processes.insert(record.tid, name);
        } else if processes.name(record.tid, record.pid).is_none()
            && let Ok(name) = kestrel::kernel::procfs::comm(&self.host, record.tid)
        {
            processes.insert(record.tid, name);
        }
    }
}

/// Shows what comes until the command ends (gives its status), the time ends, or somebody asks us to stop.
fn follow(
    live: &mut Live,
    shown: Shown<'_>,
    mut child: Option<&mut Child>,
    duration: Option<Duration>,
    ends: &Ends,
) -> Result<Option<ExitStatus>, Failure> {
    let Shown {
        mut line,
        actor,
        came: all,
    } = shown;
    let mut out = Vec::new();
    let mut status = None;
    let deadline = duration.map(|d| Instant::now() + d);
    loop {
        let last = ends.reached() || deadline.is_some_and(|d| Instant::now() >= d) || status.is_some();
        let mut show = |record: &Record<'_>| {
            match &record.event.action {
                None => line(record, &mut out),
                Some(action) => {
                    if actor.act("", action, record, &mut out) == Acted::Later {
                        actor.leave_out(action);
                    }
                }
            }
            Ok(())
        };
        let came = if last {
            live.stop(&mut show)?
        } else {
            live.poll(&mut show)?
        };
        flush(&mut out)?;
        actor.report_ended();
        match live.take_lost() {
            (0, 0) => {}
            (full, frozen) => {
                *all += full + frozen;
                for (lost, why) in [(full, "the ring was full"), (frozen, "the buffer was frozen")] {
                    if lost > 0 {
                        eprintln!("lost {}: {why}", counted(lost, "event"));
                    }
                }
            }
        }
        *all += came as u64;
        if last {
            return Ok(status);
        }
        status = child.as_deref_mut().map_or(Ok(None), ended)?;
        if came == 0 && status.is_none() {
            std::thread::sleep(NAP);
        }
    }
}

fn flush(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut stdout = crate::screen::out();
    stdout.write_all(out)?;
    stdout.flush()?;
    out.clear();
    Ok(())
}
