//! `kestrel trace`: events as lines while they happen.

use super::Format;
use super::record::{command_line, detach, end, ended, exit, show_maps};
use crate::exit::{Exit, Failure};
use crate::selection::{self, Selection};
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::process::Interrupt;
use kestrel::live::Live;
use kestrel::session::Session;
use kestrel_trace::print::{Json, Printer, Style, Text};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use std::io::Write;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Options of `trace`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
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

Ctrl-C ends. `kestrel list -v EVENT` shows the fields of an event.";

const NAP: Duration = Duration::from_millis(10);

/// Writes one record's line.
type Line = Box<dyn FnMut(&Record<'_>, &mut Vec<u8>)>;

/// Traces.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let selection = &options.selection;
    let catalog = Catalog::new(Host::default());
    let held = if selection.dry_run {
        None
    } else {
        selection::hold(selection)?
    };
    let plan = selection::plan(selection, held.as_ref(), Mode::Stream, &catalog)?;
    if selection::show(selection, &plan)? {
        return Ok(Exit::Done);
    }
    let interrupt = Interrupt::install()?;
    let mut live = Live::new(Session::start(&plan, &catalog, &command_line())?);
    let line = printer(options.format, &live, &catalog);
    live.start();
    let mut child = held.map(selection::release).transpose()?;
    let followed = follow(&mut live, line, child.as_mut(), selection.duration, &interrupt);
    let status = match &followed {
        Ok(Some(status)) => Some(*status),
        _ => {
            end(child)?;
            None
        }
    };
    followed?;
    for missed in live.session().missed()? {
        eprintln!("{missed}");
    }
    show_maps(live.session(), catalog.host(), options.format == Format::Json)?;
    detach(live.session_mut());
    Ok(exit(status.filter(|_| !interrupt.requested())))
}

fn printer(format: Format, live: &Live, catalog: &Catalog) -> Line {
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    let mut printer: Box<dyn Printer> = match format {
        Format::Json => Box::new(Json::new(symbols, Processes::default())),
        Format::Text => Box::new(Text::new(Style::default(), symbols, Processes::default())),
    };
    let host = catalog.host().clone();
    Box::new(move |record, out| {
        let processes = printer.processes_mut();
        if processes.name(record.tid, record.pid).is_none()
            && let Ok(name) = kestrel::kernel::procfs::comm(&host, record.tid)
        {
            processes.insert(record.tid, name);
        }
        printer.line(record, out);
    })
}

/// Shows what comes until the command ends (gives its status), the time ends, or somebody asks us to stop.
fn follow(
    live: &mut Live,
    mut line: Line,
    mut child: Option<&mut Child>,
    duration: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Option<ExitStatus>, Failure> {
    let mut out = Vec::new();
    let mut status = None;
    let deadline = duration.map(|d| Instant::now() + d);
    loop {
        let last = interrupt.requested() || deadline.is_some_and(|d| Instant::now() >= d) || status.is_some();
        let mut show = |record: &Record<'_>| {
            line(record, &mut out);
            Ok(())
        };
        let came = if last {
            live.stop(&mut show)?
        } else {
            live.poll(&mut show)?
        };
        flush(&mut out)?;
        match live.take_lost() {
            0 => {}
            lost => eprintln!("lost {lost} events: the ring was full"),
        }
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
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(out)?;
    stdout.flush()?;
    out.clear();
    Ok(())
}
