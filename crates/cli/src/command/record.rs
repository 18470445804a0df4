//! `kestrel record`: events into a trace directory.

use super::DEFAULT_TRACE;
use super::bpf::maps as object_maps;
use crate::actor::{Acted, Actor, lost_messages};
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::progress;
use crate::selection::{self, Ends, Selection};
use crate::style::bytes;
use clap::Args;
use kestrel::agent::Answer;
use kestrel::bpf::BpfMap;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::Host;
use kestrel::kernel::process::{CLOSER, set_niceness};
use kestrel::record::{Recorded, Recorder};
use kestrel::session::Session;
use kestrel::session::target::Target;
use kestrel_trace::aggregate::{json, text};
use kestrel_trace::print::{are, counted, thousands, were};
use kestrel_trace::summary::EventCount;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Options of `record`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// The trace directory; an old trace there is replaced
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_TRACE, value_parser = super::directory())]
    output: PathBuf,
    /// Keep the newest events: overwrite the oldest when a ring is full, and write the rings out at the end
    #[arg(long)]
    overwrite: bool,
}

const EXAMPLES: &str = "\
Examples:
  kestrel record -e sched:sched_switch -- make            a command and its children
  kestrel record -e 'sched:*,irq:*' -a --duration 5       all processes, for five seconds
  kestrel record -e 'syscalls:sys_enter_openat { record(str(args.filename)) }' -p 1234
  kestrel record -e 'kprobe:vfs_read /arg2 > 4096/' -g    large reads, with call stacks
  kestrel record -e 'profile:hz:99 { record(kstack, ustack) }' -a --duration 5   what runs on every CPU
  kestrel record -e 'kprobe:vfs_read handler \"count.o\"' -a --duration 5   a program of a compiled object instead of a block
  kestrel record --table flight --duration 10             the tables of a file, or one that comes with Kestrel
  kestrel record -e 'sched:*' --overwrite -o last.trace   keep the newest until Ctrl-C

Events lost because a ring was full are counted and reported. `kestrel report` and `kestrel print` show the trace.";

/// How long the recorder sleeps when the rings are calm, and when they fill.
const CALM: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_millis(1);
/// How full a ring may be while the recorder sleeps.
const FULL_ENOUGH: f64 = 0.25;

/// Priority of the recorder.
const READER_NICENESS: i32 = -15;

/// Records.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let selection = &options.selection;
    let catalog = selection::catalog(selection);
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
    let plan = selection::plan(selection, held.as_ref(), (mode, true), &catalog)?;
    if selection.dry_run {
        selection::show(selection, &plan)?;
        return Ok(Exit::Done);
    }
    let ends = Ends::watch(selection)?;
    let session = Session::start(&plan, &catalog, &command_line());
    let attached = begun.elapsed();
    // Writing the listing takes time that is none of attaching's; where the kernel refuses a program, it is wanted most.
    selection::show(selection, &plan)?;
    let session = session?;
    if selection.verbose {
        let programs = counted(session.programs() as u64, "program");
        eprintln!(
            "attached {programs} {:.1} ms after the start; loading and attaching took {:.1} ms",
            attached.as_secs_f64() * 1e3,
            session.attaching().as_secs_f64() * 1e3
        );
        for detour in session.detours() {
            eprintln!("  {} by {}: {}", detour.event, detour.way, detour.why);
        }
    }
    let mut actor = selection.rights.actor(catalog.host(), Format::Text)?;
    let mut recorder = Recorder::create(session, &options.output, true)?;
    recorder.start();
    if selection.verbose {
        eprintln!("recording into {}", show_path(&options.output));
    }
    // A late reader loses events; the command was forked before and keeps its own priority. Without the right to, we go on as we are.
    let _ = set_niceness(READER_NICENESS);
    let mut child = held.map(selection::release).transpose()?;
    let followed = follow(
        &mut recorder,
        &mut actor,
        child.as_mut(),
        selection.duration,
        &ends,
    );
    let status = match &followed {
        Ok(Some(status)) => Some(*status),
        _ => {
            end(child)?;
            None
        }
    };
    // A full disk or the like: what was written before stays a whole trace, and what was not is counted.
    let stopped = recorder.stop();
    let acted = act(&mut recorder, &mut actor);
    actor.finish();
    match recorder.waiting_messages() {
        0 => {}
        some => eprintln!(
            "{} waited for a place and {} left out",
            counted(some, "command"),
            were(some)
        ),
    }
    let failed = followed.err().or_else(|| stopped.err().map(Failure::from));
    let failed = failed.or_else(|| acted.err());
    let finished = recorder.finish(&catalog, progress::bar("counting and naming"));
    let mut recorded = match (failed, finished) {
        (None, finished) => finished?,
        (Some(failure), Err(_)) => return Err(failure),
        (Some(failure), Ok(mut recorded)) => {
            tell(&recorded, plan.target, actor.count);
            detach(&mut recorded.session);
            return Err(failure);
        }
    };
    tell(&recorded, plan.target, actor.count);
    show_maps(&recorded.session, catalog.host(), false)?;
    let ending = Instant::now();
    detach(&mut recorded.session);
    if selection.verbose {
        eprintln!("detached in {:.1} ms", ending.elapsed().as_secs_f64() * 1e3);
    }
    Ok(exit(status.filter(|_| !ends.requested())))
}

/// The command as typed, for the trace's own record; what is no text is shown as such.
pub(super) fn command_line() -> String {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// A traced command that failed makes us fail, too.
pub(super) fn exit(status: Option<ExitStatus>) -> Exit {
    match status {
        Some(status) if !status.success() => {
            eprintln!("kestrel: the traced command ended with {status}");
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

/// Drains the rings until the command ends (gives its status), the time ends, or somebody asks us to stop.
fn follow(
    recorder: &mut Recorder,
    actor: &mut Actor,
    mut child: Option<&mut Child>,
    duration: Option<Duration>,
    ends: &Ends,
) -> Result<Option<ExitStatus>, Failure> {
    let deadline = duration.map(|d| Instant::now() + d);
    loop {
        let pages = recorder.poll()?;
        act(recorder, actor)?;
        if let Some(status) = child.as_deref_mut().map_or(Ok(None), ended)? {
            return Ok(Some(status));
        }
        if ends.reached() || deadline.is_some_and(|d| Instant::now() >= d) {
            return Ok(None);
        }
        let nap = if pages > 0 { BUSY } else { CALM };
        nap_until(recorder, nap, deadline, child.as_deref_mut())?;
    }
}

/// Does what records ask; their lines go to standard output.
fn act(recorder: &mut Recorder, actor: &mut Actor) -> Result<(), Failure> {
    let mut lines = Vec::new();
    recorder.poll_messages(&mut |action, record| {
        Ok(match actor.act("", action, record, &mut lines) {
            Acted::Later => Answer::Later,
            _ => Answer::Done,
        })
    })?;
    if let Some(lost) = recorder.take_lost_messages() {
        eprintln!("{}", lost_messages(lost));
    }
    actor.report_ended();
    if !lines.is_empty() {
        let mut out = crate::screen::out();
        out.write_all(&lines)?;
        out.flush()?;
    }
    Ok(())
}

/// Sleeps, but not beyond the end of the time or of the command, and not while a ring fills.
fn nap_until(
    recorder: &Recorder,
    nap: Duration,
    deadline: Option<Instant>,
    mut child: Option<&mut Child>,
) -> Result<(), Failure> {
    let end = Instant::now() + nap;
    let end = deadline.map_or(end, |d| d.min(end));
    while Instant::now() < end && recorder.fill() < FULL_ENOUGH {
        std::thread::sleep(BUSY.min(end - Instant::now()));
        if child.as_deref_mut().map_or(Ok(None), ended)?.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

/// The command's status, once it has ended.
pub(super) fn ended(child: &mut Child) -> Result<Option<ExitStatus>, Failure> {
    child.try_wait().map_err(|error| {
        Failure::new(
            Exit::Internal,
            format!("cannot ask for the command's status: {error}"),
        )
    })
}

/// A command that still runs when tracing ends is asked to end; Ctrl-C on the terminal reached it already.
pub(super) fn end(child: Option<Child>) -> Result<(), Failure> {
    use kestrel::kernel::process::{Signal, send};
    let Some(mut child) = child else { return Ok(()) };
    if ended(&mut child)?.is_some() {
        return Ok(());
    }
    let _ = send(child.id(), Signal::Terminate);
    let until = Instant::now() + Duration::from_secs(2);
    while ended(&mut child)?.is_none() {
        if Instant::now() > until {
            let _ = send(child.id(), Signal::Kill);
        }
        std::thread::sleep(CALM);
    }
    Ok(())
}

fn tell(recorded: &Recorded, target: Target, asked: u64) {
    let summary = &recorded.summary;
    eprintln!(
        "{} in {:.2} s, {} in {}; lost {}, {}{}",
        counted(recorded.records(), "event"),
        summary.duration_ns as f64 / 1e9,
        bytes(recorded.written.bytes),
        show_path(&recorded.path),
        thousands(summary.lost()),
        summary.missed.unwrap_or_default(),
        match summary.overwritten() {
            0 => String::new(),
            n => format!(", overwritten {}", thousands(n)),
        }
    );
    tell_lost(&summary.events);
    for note in &summary.notes {
        eprintln!("  {note}");
    }
    if let Some(cut_short) = &summary.cut_short {
        eprintln!("{cut_short}");
    } else if summary.lost() > 0 {
        eprintln!("hint: a larger --buffer-size keeps more; a predicate lets fewer events in");
    }
    let came = recorded.records() + summary.lost() + asked;
    hint_if_nothing(came, &recorded.session, target);
}

/// What is missing, a line for each event and CPU.
pub(super) fn tell_lost(counts: &[EventCount]) {
    for count in counts.iter().filter(|c| c.lost + c.overwritten > 0) {
        eprintln!(
            "  {} on CPU {}: lost {}, overwritten {}",
            count.event,
            count.cpu,
            thousands(count.lost),
            thousands(count.overwritten)
        );
    }
}

/// What to try where events were to be recorded, and none came.
pub(super) fn hint_if_nothing(came: u64, session: &Session, target: Target) {
    if came > 0 || session.classes().is_empty() {
        return;
    }
    let others = match target {
        Target::Command(_) => "; -a records those of all processes",
        Target::Process(_) => "; without -p those of all processes are recorded",
        Target::All => ", or no predicate held",
    };
    eprintln!("hint: none of the events came{others}");
}

/// Does not hold the user for what the kernel takes long to detach.
pub(super) fn detach(session: &mut Session) {
    let apart = session.detach_apart();
    if apart > 0 {
        eprintln!(
            "{} {} masked and being detached in the background (process {}): the kernel takes its time for each",
            counted(apart as u64, "hook"),
            are(apart as u64),
            CLOSER.to_string_lossy()
        );
    }
}

/// What the handlers' maps hold, on stdout: as text, or one JSON object per line.
pub(super) fn show_maps(session: &Session, host: &Host, as_json: bool) -> Result<(), Failure> {
    let snapshots = session.map_snapshots()?;
    let symbols = kestrel::session::maps::symbols(&snapshots, host);
    let mut stdout = crate::screen::out();
    for snapshot in snapshots.iter().filter(|s| !s.is_empty()) {
        let shown = if as_json {
            json(snapshot, &symbols).to_string()
        } else {
            text(snapshot, &symbols)
        };
        writeln!(stdout, "{shown}")?;
    }
    let mut shown = Ok(());
    session.each_object_map(&mut |path, map| {
        if shown.is_ok() && object_maps::is_readable(map) {
            shown = show_object_map(&mut stdout, path, map, as_json);
        }
    });
    shown
}

/// What a map of an object holds that handled events.
fn show_object_map(out: &mut impl Write, path: &str, map: &BpfMap, as_json: bool) -> Result<(), Failure> {
    if !as_json {
        return Ok(out.write_all(object_maps::text(map)?.as_bytes())?);
    }
    for entry in object_maps::entries(map)? {
        let (key, value) = (entry.key, entry.value);
        let line = serde_json::json!({"object": path, "map": map.name(), "key": key, "value": value});
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn show_path(path: &Path) -> String {
    path.display().to_string()
}
