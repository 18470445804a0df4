//! `kestrel trace`: events as lines while they happen.

use super::Format;
use super::record::{command_line, exit, finish_child};
use crate::exit::{Exit, Failure};
use crate::selection::{self, Selection};
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::process::{Held, Interrupt};
use kestrel::live::Live;
use kestrel::session::Session;
use kestrel_trace::print::{Json, Printer, Style, Text};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use std::io::Write;
use std::time::{Duration, Instant};

/// Options of `trace`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// How lines look
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

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
    let request = selection::request(selection, held.as_ref(), Mode::Stream);
    let plan = selection::plan(selection, &request, &catalog)?;
    if selection.dry_run || selection.verbose {
        print!("{}", kestrel::plan::show(&plan, selection.verbose)?);
        if selection.dry_run {
            return Ok(Exit::Done);
        }
    }
    let interrupt = Interrupt::install()?;
    let live = Live::new(Session::start(&plan, &catalog, &command_line())?);
    let line = printer(options.format, &live, &catalog);
    follow(live, line, held, selection.duration, &interrupt)
}

fn printer(format: Format, live: &Live, catalog: &Catalog) -> Line {
    let symbols = kestrel::record::live_symbols(live.session(), catalog.host());
    match format {
        Format::Json => {
            let mut json = Json::new(symbols);
            Box::new(move |record, out| json.line(record, out))
        }
        Format::Text => {
            let mut text = Text::new(Style::default(), symbols, Processes::default());
            let host = catalog.host().clone();
            Box::new(move |record, out| {
                let processes = text.processes_mut();
                if processes.name(record.tid, record.pid).is_none()
                    && let Ok(name) = kestrel::kernel::procfs::comm(&host, record.tid)
                {
                    processes.insert(record.tid, name);
                }
                text.line(record, out);
            })
        }
    }
}

fn follow(
    mut live: Live,
    mut line: Line,
    held: Option<Held>,
    duration: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let mut out = Vec::new();
    let mut child = None;
    let mut status = None;
    live.start();
    if let Some(held) = held {
        child = Some(held.release()?);
    }
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
            break;
        }
        if let Some(child) = &mut child {
            status = child.try_wait()?;
        }
        if came == 0 && status.is_none() {
            std::thread::sleep(NAP);
        }
    }
    for missed in live.session().missed()? {
        eprintln!(
            "{} hits of {} were skipped by the kernel",
            missed.count, missed.event
        );
    }
    if status.is_none() {
        finish_child(child)?;
    }
    Ok(exit(status))
}

fn flush(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(out)?;
    stdout.flush()?;
    out.clear();
    Ok(())
}
