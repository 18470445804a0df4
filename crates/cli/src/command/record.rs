//! `kestrel record`: events into a trace directory.

use crate::actor::{ActionOutcome, Actor, lost_messages};
use crate::arguments::{DEFAULT_TRACE, command_line, directory};
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach, hint_if_no_event, print_maps};
use crate::output::Format;
use crate::output::losses::report_lost;
use crate::progress;
use crate::selection::{self, Selection};
use crate::style::bytes;
use clap::Args;
use kestrel::agent::Answer;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::process::set_niceness;
use kestrel::record::{Recorded, Recorder};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel_trace::print::{counted, thousands, were};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `record`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// The trace directory; an old trace there is replaced
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_TRACE, value_parser = directory())]
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
  kestrel record -F 99 --call-graph dwarf -- ./server     a profile of code without frame pointers
  kestrel record -e 'profile:hz:99 { record(kstack, ustack) }' -a --duration 5   what runs on every CPU
  kestrel record -e 'kprobe:vfs_read handler \"count.o\"' -a --duration 5   a program of a compiled object instead of a block
  kestrel record --table flight --duration 10             the tables of a file, or one that comes with Kestrel
  kestrel record -e 'sched:*' --overwrite -o last.trace   keep the newest until Ctrl-C

Events lost because a ring was full are counted and reported. `kestrel report` and `kestrel print` show the trace.";

/// Pauses between two polls of the rings: after an empty poll, and after one with data.
const CALM: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_millis(1);
/// The fill of a ring that ends a pause.
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
        selection::start_held(selection)?
    };
    let mode = if options.overwrite {
        Mode::Overwrite
    } else {
        Mode::Stream
    };
    let plan = selection::plan(selection, held.as_ref(), (mode, true), &catalog)?;
    if selection.dry_run {
        selection::print_plan(selection, &plan)?;
        return Ok(Exit::Done);
    }
    let mut foreground = Foreground::new(selection.duration)?.with_process(selection.pid);
    let session = Session::start(&plan, &catalog, &command_line());
    let attached = begun.elapsed();
    // Writing the listing takes time that is none of attaching's; where the kernel refuses a program, it is wanted most.
    selection::print_plan(selection, &plan)?;
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
    let mut recording = Recording {
        actor: selection.rights.actor(catalog.host(), Format::Text)?,
        recorder: Recorder::create(session, &options.output, true)?,
    };
    recording.recorder.start();
    if selection.verbose {
        eprintln!("recording into {}", show_path(&options.output));
    }
    // A late reader loses events; the command was forked before and keeps its own priority. Without the right to, we go on as we are.
    let _ = set_niceness(READER_NICENESS);
    foreground.release(held)?;
    let recorded = foreground.run(&mut recording);
    // A full disk or the like: what was written before is a whole trace, and what was not is counted.
    let stopped = recording.recorder.stop();
    let acted = recording.perform_actions();
    let Recording { recorder, mut actor } = recording;
    actor.finish();
    match recorder.waiting_messages() {
        0 => {}
        some => eprintln!(
            "{} waited for a place and {} left out",
            counted(some, "command"),
            were(some)
        ),
    }
    let failed = recorded.err().or_else(|| stopped.err().map(Failure::from));
    let failed = failed.or_else(|| acted.err());
    let finished = recorder.finish(&catalog, progress::bar("counting and naming"));
    let mut recorded = match (failed, finished) {
        (None, finished) => finished?,
        (Some(failure), Err(_)) => return Err(failure),
        (Some(failure), Ok(mut recorded)) => {
            print_summary(&recorded, plan.target, actor.count);
            detach(&mut recorded.session);
            return Err(failure);
        }
    };
    print_summary(&recorded, plan.target, actor.count);
    print_maps(&recorded.session, catalog.host(), false)?;
    let ending = Instant::now();
    detach(&mut recorded.session);
    if selection.verbose {
        eprintln!("detached in {:.1} ms", ending.elapsed().as_secs_f64() * 1e3);
    }
    Ok(foreground.exit())
}

/// A recording in progress: the recorder, and the actor for actions of its records.
struct Recording {
    recorder: Recorder,
    actor: Actor,
}

impl Work for Recording {
    const WATCHES_FILL: bool = true;

    fn poll(&mut self, _last: bool) -> Result<Duration, Failure> {
        let pages = self.recorder.poll()?;
        self.perform_actions()?;
        Ok(if pages > 0 { BUSY } else { CALM })
    }

    fn must_poll(&self) -> bool {
        self.recorder.fill() >= FULL_ENOUGH
    }
}

impl Recording {
    /// Performs the actions of records; their lines go to standard output.
    fn perform_actions(&mut self) -> Result<(), Failure> {
        let (recorder, actor) = (&mut self.recorder, &mut self.actor);
        let mut lines = Vec::new();
        recorder.poll_messages(&mut |action, record| {
            Ok(match actor.act("", action, record, &mut lines) {
                ActionOutcome::Later => Answer::Later,
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
}

/// Prints the number of events recorded and lost.
fn print_summary(recorded: &Recorded, target: ProcessFilter, asked: u64) {
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
    report_lost(&summary.events);
    for note in &summary.notes {
        eprintln!("  {note}");
    }
    if let Some(cut_short) = &summary.cut_short {
        eprintln!("{cut_short}");
    } else if summary.lost() > 0 {
        eprintln!("hint: a larger --buffer-size keeps more; a predicate lets fewer events in");
    }
    let came = recorded.records() + summary.lost() + asked;
    hint_if_no_event(came, &recorded.session, target);
}

fn show_path(path: &Path) -> String {
    path.display().to_string()
}
