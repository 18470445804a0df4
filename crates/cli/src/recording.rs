//! A recording in the foreground: what is selected, recorded into a trace directory, with its counts on stderr; `record` and `sched record` are given by this.

use crate::actor::{ActionOutcome, Actor, lost_messages};
use crate::arguments::command_line;
use crate::calls;
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach, hint_if_no_event, print_maps};
use crate::output::Format;
use crate::output::losses::report_lost;
use crate::progress;
use crate::screen::{is_quiet, set_quiet};
use crate::selection::{self, Selection};
use crate::status_line::{Figures, MissedSoFar, StatusLine};
use crate::style::bytes;
use crate::switching::{DirectoryTotals, Switches, Switching};
use kestrel::agent::Answer;
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::Mode;
use kestrel::kernel::Host;
use kestrel::kernel::process::set_niceness;
use kestrel::record::{CompletedDirectory, Recorded, Recorder};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::syscalls::Detail;
use kestrel_trace::calls::Kept;
use kestrel_trace::ctf::directory;
use kestrel_trace::print::{counted, thousands, were};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pauses between two polls of the rings: after one without data, and after one with. A ring that fills ends them.
const PAUSE_WITHOUT_DATA: Duration = Duration::from_millis(200);
const PAUSE_WITH_DATA: Duration = Duration::from_millis(1);

/// Priority of the recorder.
const READER_NICENESS: i32 = -15;

/// Options of what a recording keeps, and of its size on disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordingOptions {
    /// The newest events when a ring is full, not the oldest.
    pub(crate) newest: bool,
    /// Inlined functions and source lines of user stacks.
    pub(crate) lines: bool,
    /// Little room on the disk: streams compressed by zstd at this level.
    pub(crate) compress: Option<u8>,
    /// No more than about so many bytes on the disk.
    pub(crate) most: Option<u64>,
    /// The set of system calls to record, beside the events that are selected.
    pub(crate) calls: Option<String>,
    /// When it goes on in another directory.
    pub(crate) switches: Option<Switches>,
}

/// Records what is selected into the directory `output`.
pub(crate) fn run(selection: &Selection, output: &Path, keep: RecordingOptions) -> Result<Exit, Failure> {
    set_quiet(selection.quiet);
    let begun = Instant::now();
    let catalog = selection::catalog(selection);
    let held = if selection.dry_run {
        None
    } else {
        selection::start_held(selection)?
    };
    let mode = if keep.newest {
        Mode::Overwrite
    } else {
        Mode::Stream
    };
    let mode = (mode, Bell::QuarterFull);
    let (plan, mut calls) = match &keep.calls {
        None => (selection::plan(selection, held.as_ref(), mode, &catalog)?, None),
        Some(set) => {
            let (calls, events) = calls::traced(set, selection, &catalog, Detail::ArgumentsToo)?;
            let plan = selection::plan_of(&events, selection, held.as_ref(), mode, &catalog)?;
            (plan, Some(Kept::new(&calls.signatures, set)))
        }
    };
    if selection.dry_run {
        selection::print_plan(selection, &plan)?;
        return Ok(Exit::Done);
    }
    let mut switching = keep
        .switches
        .map(|switches| Switching::new(output, switches))
        .transpose()?;
    let line = StatusLine::new("recording", selection.duration, selection.shares_terminal());
    let mut foreground = Foreground::new(selection.duration)?
        .with_target(&plan.target, catalog.host())
        .with_status_line(&line);
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
        for detour in session.fallbacks() {
            eprintln!("  {} by {}: {}", detour.event, detour.used, detour.why);
        }
    }
    let mut recording = Recording {
        actor: selection.rights.actor(catalog.host(), Format::Text)?,
        recorder: match &mut switching {
            Some(switching) => Recorder::create_packed(session, &switching.next(), false, keep.compress)?,
            None => {
                directory::keep_old(output)?;
                Recorder::create_packed(session, output, true, keep.compress)?
            }
        },
        switching,
        missed: MissedSoFar::default(),
        line,
        most: keep.most,
        calls: None,
    };
    if keep.lines {
        recording.recorder.keep_lines();
    }
    match &mut calls {
        Some(kept) => start_with_calls(&mut recording.recorder, kept, &plan.target, catalog.host())?,
        None => recording.recorder.start(),
    }
    recording.calls = calls.map(|kept| OpenCalls {
        kept,
        target: plan.target.clone(),
        host: catalog.host().clone(),
    });
    if selection.verbose {
        eprintln!("recording into {}", show_path(recording.recorder.path()));
    }
    // A late reader loses events; the command was forked before and keeps its own priority. Without the right to, we go on as we are.
    let _ = set_niceness(READER_NICENESS);
    foreground.release(held)?;
    let recorded = foreground.run(&mut recording);
    if recording.is_full() {
        remark!("the recording ended because it had the size of --max-size");
    }
    // A full disk or the like: what was written before is a whole trace, and what was not is counted.
    let stopped = recording.recorder.stop();
    let acted = recording.perform_actions();
    let completed = recording.recorder.wait_for_all();
    let taken = recording.take(completed);
    let Recording {
        recorder,
        mut actor,
        mut switching,
        ..
    } = recording;
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
    let failed = failed.or_else(|| acted.err()).or_else(|| taken.err());
    let finished = recorder.finish(&catalog, progress::bar("counting and naming"));
    let mut recorded = match (failed, finished) {
        (None, finished) => finished?,
        (Some(failure), Err(_)) => return Err(failure),
        (Some(failure), Ok(mut recorded)) => {
            print_summary(
                &recorded,
                &plan.target,
                actor.count,
                selection.verbose,
                DirectoryTotals::default(),
            );
            detach(&mut recorded.session);
            return Err(failure);
        }
    };
    let mut whole = DirectoryTotals::default();
    if let Some(switching) = &mut switching {
        whole = switching.whole;
        switching.keep_path(&recorded.path);
        whole.removed = switching.whole.removed;
    }
    print_summary(&recorded, &plan.target, actor.count, selection.verbose, whole);
    let mut code = recorded.code.take();
    print_maps(&recorded.session, catalog.host(), code.as_mut(), false)?;
    let ending = Instant::now();
    detach(&mut recorded.session);
    if selection.verbose {
        eprintln!("detached in {:.1} ms", ending.elapsed().as_secs_f64() * 1e3);
    }
    Ok(foreground.exit())
}

/// Lets calls in, and keeps what their lines need: what processes had open, and which process is the command's until its exec.
fn start_with_calls(
    recorder: &mut Recorder,
    kept: &mut Kept,
    target: &ProcessFilter,
    host: &Host,
) -> Result<(), Failure> {
    if let ProcessFilter::Command(pid) = target {
        recorder.session().admit_before_exec(*pid)?;
        kept.command = Some(*pid);
    }
    let before = calls::files_of(target, host);
    recorder.start();
    let after = calls::files_of(target, host);
    kept.files = before.intersection(&after).cloned().collect();
    recorder.keep_calls(kept)?;
    Ok(())
}

/// A recording in progress: the recorder, and the actor for actions of its records.
struct Recording {
    recorder: Recorder,
    actor: Actor,
    missed: MissedSoFar,
    line: StatusLine,
    /// Bytes on the disk after which the recording ends.
    most: Option<u64>,
    switching: Option<Switching>,
    calls: Option<OpenCalls>,
}

/// Per-directory state of a recording of system calls.
struct OpenCalls {
    kept: Kept,
    target: ProcessFilter,
    host: Host,
}

impl Recording {
    /// Whether the recording has the size that it may have.
    fn is_full(&self) -> bool {
        self.most
            .is_some_and(|most| self.recorder.written().bytes >= most)
    }
}

impl Work for Recording {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let pages = self.recorder.poll()?;
        self.perform_actions()?;
        if !last {
            self.switch()?;
        }
        let busy = pages > 0 || self.recorder.was_woken();
        let left = self
            .switching
            .as_ref()
            .map_or(PAUSE_WITHOUT_DATA, Switching::left);
        Ok(if busy {
            PAUSE_WITH_DATA
        } else {
            PAUSE_WITHOUT_DATA.min(left).max(PAUSE_WITH_DATA)
        })
    }

    fn is_called(&self) -> bool {
        self.switching.as_ref().is_some_and(Switching::is_called)
    }

    /// An `exit` of a handler has let no event in any more.
    fn has_ended(&self) -> bool {
        self.is_full() || self.recorder.session().is_masked()
    }

    fn figures(&mut self) -> String {
        let so_far = self.recorder.so_far();
        let figures = Figures {
            events: so_far.events,
            bytes: so_far.bytes,
            lost: so_far.lost,
            overwritten: so_far.overwritten,
            missed: self.missed.of(self.recorder.session()),
        };
        figures.text()
    }

    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        self.recorder.bells()
    }
}

impl Recording {
    /// Goes on in another directory where it is time, and takes those that are whole.
    fn switch(&mut self) -> Result<(), Failure> {
        let Some(switching) = &mut self.switching else {
            return Ok(());
        };
        let files = |calls: &OpenCalls| calls::files_of(&calls.target, &calls.host);
        let before = match &self.calls {
            Some(calls) if switching.is_due(&self.recorder) => files(calls),
            _ => BTreeSet::new(),
        };
        if switching.switch(&mut self.recorder)?
            && let Some(calls) = &mut self.calls
        {
            // Files that are the same before and after were so in between.
            calls.kept.files = before.intersection(&files(calls)).cloned().collect();
            calls.kept.command = None;
            self.recorder.keep_calls(&calls.kept)?;
        }
        let whole = self.recorder.take_completed();
        self.take(whole)
    }

    /// Takes directories that are whole; of several failures the first.
    fn take(&mut self, completed: Vec<kestrel::Result<CompletedDirectory>>) -> Result<(), Failure> {
        let Some(switching) = &mut self.switching else {
            return Ok(());
        };
        let mut taken = Ok(());
        for directory in completed {
            match directory {
                Ok(directory) => {
                    switching.keep(&directory);
                    self.line.aside(|| print_directory(&directory));
                }
                Err(error) => taken = taken.and(Err(error.into())),
            }
        }
        taken
    }

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
            self.line.aside(|| eprintln!("{}", lost_messages(lost)));
        }
        actor.report_ended();
        if !lines.is_empty() {
            self.line.erase();
            let mut out = crate::screen::out();
            out.write_all(&lines)?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Prints a line about a directory that is whole.
fn print_directory(directory: &CompletedDirectory) {
    let summary = &directory.summary;
    remark!(
        "{} in {:.2} s, {} in {}; lost {}",
        counted(summary.recorded(), "event"),
        summary.duration_ns as f64 / 1e9,
        bytes(directory.written.bytes),
        show_path(&directory.path),
        thousands(summary.lost()),
    );
}

/// Prints the number of events recorded and lost; `whole` are those of directories before the last.
fn print_summary(
    recorded: &Recorded,
    target: &ProcessFilter,
    messages: u64,
    verbose: bool,
    whole: DirectoryTotals,
) {
    let summary = &recorded.summary;
    let missed = summary.missed.map_or(0, |missed| missed.hits);
    let all = [summary.lost(), missed, whole.lost, whole.missed];
    // Being quiet does not extend to what the recording lacks.
    if is_quiet() && all.iter().sum::<u64>() == 0 && summary.cut_short.is_none() {
        return;
    }
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
    if whole.directories > 0 {
        let removed = match whole.removed {
            0 => String::new(),
            some => format!(", of which {} {} removed", thousands(some), were(some)),
        };
        eprintln!(
            "{} in {} in all{removed}; lost {}, missed {}",
            counted(whole.records + recorded.records(), "event"),
            counted(whole.directories + 1, "directory"),
            thousands(whole.lost + summary.lost()),
            thousands(whole.missed + missed),
        );
    }
    report_lost(&summary.events);
    let limits = summary.limits.iter().filter(|_| verbose);
    for note in summary.notes.iter().chain(limits) {
        remark!("  {note}");
    }
    if let Some(cut_short) = &summary.cut_short {
        eprintln!("{cut_short}");
    } else if summary.lost() > 0 {
        remark!("hint: a larger --buffer-size keeps more; a predicate lets fewer events in");
    }
    // Lost events happened, too: the hint is for events that never did.
    let came = recorded.records() + summary.lost() + messages + whole.records + whole.lost;
    hint_if_no_event(came, &recorded.session, target);
}

fn show_path(path: &Path) -> String {
    path.display().to_string()
}
