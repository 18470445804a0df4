//! `kestrel record`: events into a trace directory.

use super::DEFAULT_TRACE;
use crate::exit::{Exit, Failure};
use crate::selection::{self, Selection};
use crate::style::{bytes, thousands};
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::process::{Held, Interrupt, set_niceness};
use kestrel::record::{Recorded, Recorder};
use kestrel::session::Session;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Options of `record`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// The trace directory; an old trace there is replaced
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_TRACE)]
    output: PathBuf,
    /// Keep the newest events: overwrite the oldest when a ring is full, and write the rings out at the end
    #[arg(long)]
    overwrite: bool,
}

/// How long the recorder sleeps when the rings are calm, and when they fill.
const CALM: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_millis(1);

/// Priority of the recorder.
const READER_NICENESS: i32 = -15;

/// Records.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let selection = &options.selection;
    let catalog = Catalog::new(Host::default());
    let held = if selection.dry_run {
        None
    } else {
        selection::hold(selection)?
    };
    let mode = if options.overwrite {
        Mode::Overwrite
    } else {
        Mode::Stream
    };
    let request = selection::request(selection, held.as_ref(), mode);
    let plan = selection::plan(selection, &request, &catalog)?;
    if selection.dry_run || selection.verbose {
        print!("{}", kestrel::plan::show(&plan, selection.verbose)?);
        if selection.dry_run {
            return Ok(Exit::Done);
        }
    }
    let interrupt = Interrupt::install()?;
    let session = Session::start(&plan, &catalog, &command_line())?;
    if selection.verbose {
        let programs = session.programs();
        eprintln!(
            "attached {programs} programs {:.1} ms after the start",
            begun.elapsed().as_secs_f64() * 1e3
        );
        for detour in session.detours() {
            eprintln!("  {} by {}: {}", detour.event, detour.way, detour.why);
        }
    }
    let mut recorder = Recorder::create(session, &options.output, true)?;
    recorder.start();
    let status = follow(&mut recorder, held, selection.duration, &interrupt)?;
    recorder.stop()?;
    let recorded = recorder.finish(&catalog)?;
    tell(&recorded);
    Ok(exit(status))
}

/// The command as typed, for the trace's own record.
pub(super) fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

/// A traced command that failed makes us fail, too.
pub(super) fn exit(status: Option<ExitStatus>) -> Exit {
    match status {
        Some(status) if !status.success() => {
            eprintln!("the command ended with {status}");
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

/// Drains the rings until the command or the time ends, or somebody asks us to stop.
fn follow(
    recorder: &mut Recorder,
    held: Option<Held>,
    duration: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Option<ExitStatus>, Failure> {
    // A late reader loses events; the command was forked before and keeps its own priority. Without the right to, we go on as we are.
    let _ = set_niceness(READER_NICENESS);
    let mut child = held.map(Held::release).transpose()?;
    let deadline = duration.map(|d| Instant::now() + d);
    loop {
        let pages = recorder.poll()?;
        if let Some(status) = ended(child.as_mut())? {
            return Ok(Some(status));
        }
        if interrupt.requested() || deadline.is_some_and(|d| Instant::now() >= d) {
            return finish_child(child);
        }
        let nap = if pages > 0 { BUSY } else { CALM };
        nap_until(nap, deadline, &mut child)?;
    }
}

/// Sleeps, but not beyond the end of the time or of the command.
fn nap_until(nap: Duration, deadline: Option<Instant>, child: &mut Option<Child>) -> Result<(), Failure> {
    let end = Instant::now() + nap;
    let end = deadline.map_or(end, |d| d.min(end));
    while Instant::now() < end {
        std::thread::sleep(BUSY.min(end - Instant::now()));
        if let Some(child) = child
            && child.try_wait()?.is_some()
        {
            return Ok(());
        }
    }
    Ok(())
}

fn ended(child: Option<&mut Child>) -> Result<Option<ExitStatus>, Failure> {
    Ok(match child {
        Some(child) => child.try_wait()?,
        None => None,
    })
}

/// A command that still runs when tracing ends is asked to end; Ctrl-C on the terminal reached it already.
pub(super) fn finish_child(child: Option<Child>) -> Result<Option<ExitStatus>, Failure> {
    use kestrel::kernel::process::{Signal, send};
    let Some(mut child) = child else { return Ok(None) };
    if child.try_wait()?.is_none() {
        let _ = send(child.id(), Signal::Terminate);
        let until = Instant::now() + Duration::from_secs(2);
        while child.try_wait()?.is_none() && Instant::now() < until {
            std::thread::sleep(CALM);
        }
        if child.try_wait()?.is_none() {
            child.kill()?;
            child.wait()?;
        }
    }
    Ok(None)
}

fn tell(recorded: &Recorded) {
    let summary = &recorded.summary;
    eprintln!(
        "{} events in {:.2} s, {} in {}; lost {}{}",
        thousands(recorded.records()),
        summary.duration_ns as f64 / 1e9,
        bytes(recorded.written.bytes),
        show_path(&recorded.path),
        thousands(summary.lost()),
        match summary.overwritten() {
            0 => String::new(),
            n => format!(", overwritten {}", thousands(n)),
        }
    );
    for count in summary.events.iter().filter(|c| c.lost + c.overwritten > 0) {
        eprintln!(
            "  {} on CPU {}: lost {}, overwritten {}",
            count.event,
            count.cpu,
            thousands(count.lost),
            thousands(count.overwritten)
        );
    }
    for note in &summary.notes {
        eprintln!("  {note}");
    }
    if summary.lost() > 0 {
        eprintln!("hint: a larger --buffer-size keeps more; a predicate lets fewer events in");
    }
}

fn show_path(path: &Path) -> String {
    path.display().to_string()
}
