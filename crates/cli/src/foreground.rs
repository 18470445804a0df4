//! Work in the foreground: it runs until the traced command or process ends, a time is over, or a signal asks for the end.

use crate::exit::{Exit, Failure};
use crate::output::object_maps;
use crate::status_line::StatusLine;
use kestrel::kernel::process::{CLOSER, Interrupt, PausedCommand, Signal, Watched, has_ended, send};
use kestrel::kernel::{Host, readable};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel::user_symbols::UserCode;
use kestrel_trace::aggregate::{json, text};
use kestrel_trace::print::{are, counted, shown};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A job that is polled until the foreground run ends: recording, live tracing, a running object.
pub(crate) trait Work {
    /// Reads new data and returns the time to sleep before the next poll; the `last` poll reads all that is left.
    fn poll(&mut self, last: bool) -> Result<Duration, Failure>;

    /// Whether the job has ended by itself, as a watched session does when it is stopped.
    fn has_ended(&self) -> bool {
        false
    }

    /// Whether something asks for a poll now: looked at when a sleep is interrupted by a signal.
    fn is_called(&self) -> bool {
        false
    }

    /// Progress of the job for the status line; it is asked when the line is drawn.
    fn figures(&mut self) -> String {
        String::new()
    }

    /// Descriptors that end the sleep when they are readable.
    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

/// Interval of checks for the end of a command whose end cannot be slept on (before Linux 5.3).
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Interval of checks for the exit of a command that got SIGTERM, and the time until it gets SIGKILL.
const EXIT_POLL: Duration = Duration::from_millis(20);
const KILL_AFTER: Duration = Duration::from_secs(2);

/// The ends of what is traced.
enum Ends {
    /// Of processes: those that had not come when they were looked at last.
    Processes(Vec<Watched>),
    /// Of threads, by their folders in /proc: pidfds of single threads are in new kernels only.
    Threads(Vec<PathBuf>),
}

impl Ends {
    /// Whether all have come.
    fn have_come(&mut self) -> bool {
        match self {
            Self::Processes(watched) => {
                // The descriptor of one that has ended would end every sleep.
                watched.retain(|process| !process.has_ended());
                watched.is_empty()
            }
            Self::Threads(folders) => !folders.iter().any(|folder| folder.exists()),
        }
    }

    /// The processes whose ends can be slept on.
    fn processes(&self) -> &[Watched] {
        match self {
            Self::Processes(watched) => watched,
            Self::Threads(_) => &[],
        }
    }
}

/// The conditions that end a foreground run: deadline, signals, a traced process, the child command.
pub(crate) struct Foreground {
    interrupt: Interrupt,
    duration: Option<Duration>,
    targets: Option<Ends>,
    command: Option<Child>,
    /// The end of the command, where that can be slept on.
    command_end: Option<Watched>,
    /// The exit status of the command, if it ended before the run did: known when the run is over.
    status: Option<ExitStatus>,
    line: StatusLine,
}

impl Foreground {
    /// Installs the signal handlers: the first SIGINT, SIGTERM or SIGHUP ends the run, a second one the process.
    pub(crate) fn new(duration: Option<Duration>) -> Result<Self, Failure> {
        Ok(Self {
            interrupt: Interrupt::install()?,
            duration,
            targets: None,
            command: None,
            command_end: None,
            status: None,
            line: StatusLine::default(),
        })
    }

    /// Ends the run when the processes or threads that are named have ended. Kernels without pidfd_open(2) cannot tell of processes; there Ctrl-C ends the run.
    pub(crate) fn with_target(mut self, target: &ProcessFilter, host: &Host) -> Self {
        self.targets = match target {
            ProcessFilter::Processes(pids) => {
                let watched = pids.iter().filter_map(|pid| Watched::open(*pid).ok());
                let watched: Vec<Watched> = watched.collect();
                (!watched.is_empty()).then_some(Ends::Processes(watched))
            }
            ProcessFilter::Threads(tids) => {
                let paths = tids.iter().map(|tid| host.path(format!("/proc/{tid}")));
                Some(Ends::Threads(paths.collect()))
            }
            ProcessFilter::Command(_) | ProcessFilter::All => None,
        };
        self
    }

    /// Keeps this line on the terminal while it runs.
    pub(crate) fn with_status_line(mut self, line: &StatusLine) -> Self {
        self.line = line.clone();
        self
    }

    /// Lets the held command exec; the run ends when it exits.
    pub(crate) fn release(&mut self, held: Option<PausedCommand>) -> Result<(), Failure> {
        self.release_by(held, PausedCommand::release)
    }

    /// As [`Foreground::release`], in a way of its own.
    pub(crate) fn release_by(
        &mut self,
        held: Option<PausedCommand>,
        release: impl FnOnce(PausedCommand) -> kestrel::kernel::Result<Child>,
    ) -> Result<(), Failure> {
        self.command = held
            .map(release)
            .transpose()
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        self.command_end = self
            .command
            .as_ref()
            .and_then(|child| Watched::open(child.id()).ok());
        Ok(())
    }

    /// Polls the job until the run ends, then terminates a command that is still running.
    pub(crate) fn run<W: Work>(&mut self, work: &mut W) -> Result<(), Failure> {
        let worked = self.work(work);
        self.line.erase();
        let ended = self.terminate_command();
        worked.and(ended)
    }

    /// Whether a signal asked for the end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.requested()
    }

    /// The flag that such a signal sets.
    pub(crate) fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.interrupt.flag()
    }

    /// The exit code: a failure if the traced command failed, unless a signal ended the run.
    pub(crate) fn exit(&self) -> Exit {
        match self.status.filter(|_| !self.interrupt.requested()) {
            Some(status) if !status.success() => {
                eprintln!("kestrel: the traced command ended with {status}");
                Exit::Failed
            }
            _ => Exit::Done,
        }
    }

    fn work<W: Work>(&mut self, work: &mut W) -> Result<(), Failure> {
        let deadline = self.duration.map(|duration| Instant::now() + duration);
        loop {
            let command_ended = self.has_command_ended();
            let last = command_ended
                || self.interrupt.requested()
                || self.targets.as_mut().is_some_and(Ends::have_come)
                || work.has_ended()
                || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let sleep = work.poll(last)?;
            if last {
                // Not before: what was asked for about the command is read from its folder in /proc.
                self.status = if command_ended {
                    self.command_status()?
                } else {
                    None
                };
                return Ok(());
            }
            self.line.draw(|| work.figures());
            let end = Instant::now() + sleep;
            self.sleep_until(deadline.map_or(end, |deadline| deadline.min(end)), work)?;
        }
    }

    /// Sleeps until `end`, the exit of the command or of the process, a signal, or a bell of the job, whichever comes first.
    fn sleep_until<W: Work>(&mut self, end: Instant, work: &W) -> Result<(), Failure> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.has_command_ended() || left.is_zero() {
                return Ok(());
            }
            let processes = self.targets.iter().flat_map(Ends::processes);
            let ends = self.command_end.iter().chain(processes);
            let awaited: Vec<BorrowedFd<'_>> = ends.map(Watched::fd).chain(work.bells()).collect();
            let in_slices = self.command.is_some() && self.command_end.is_none();
            let slice = if in_slices { left.min(CHECK_INTERVAL) } else { left };
            if readable::wait(&awaited, slice) || self.interrupt.requested() || work.is_called() {
                return Ok(());
            }
        }
    }

    /// Whether the command has ended; it is not reaped.
    fn has_command_ended(&self) -> bool {
        self.command.as_ref().is_some_and(has_ended)
    }

    /// The exit status of the command, which is reaped; `None` while it runs.
    pub(crate) fn command_status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let asked = self.command.as_mut().map_or(Ok(None), Child::try_wait);
        asked.map_err(|error| {
            Failure::new(
                Exit::Internal,
                format!("cannot ask for the command's status: {error}"),
            )
        })
    }

    /// Sends SIGTERM, and later SIGKILL, to a command that is still running, and waits for its exit.
    fn terminate_command(&mut self) -> Result<(), Failure> {
        let Some(pid) = self.command.as_ref().map(Child::id) else {
            return Ok(());
        };
        if self.command_status()?.is_some() {
            return Ok(());
        }
        let _ = send(pid, Signal::Terminate);
        let until = Instant::now() + KILL_AFTER;
        while self.command_status()?.is_none() {
            if Instant::now() > until {
                let _ = send(pid, Signal::Kill);
            }
            std::thread::sleep(EXIT_POLL);
        }
        Ok(())
    }
}

/// Prints a hint if no event occurred, as far as records and maps tell.
pub(crate) fn hint_if_no_event(came: u64, session: &Session, target: &ProcessFilter) {
    let maps = session.map_snapshots().unwrap_or_default();
    if came > 0 || session.classes().is_empty() || maps.iter().any(|map| !map.is_empty()) {
        return;
    }
    let others = match target {
        ProcessFilter::Command(_) => "; -a records those of all processes",
        ProcessFilter::Processes(_) => "; without -p those of all processes are recorded",
        ProcessFilter::Threads(_) => "; without -t those of all threads are recorded",
        ProcessFilter::All => ", or no predicate held",
    };
    remark!("hint: none of the events came{others}");
}

/// Detaches a session; slow detaching goes on in a background process, which is reported.
pub(crate) fn detach(session: &mut Session) {
    let remaining = session.detach_in_background();
    if remaining > 0 {
        remark!(
            "{} {} masked and being detached in the background (process {}): the kernel takes its time for each",
            counted(remaining as u64, "hook"),
            are(remaining as u64),
            CLOSER.to_string_lossy()
        );
    }
}

/// Prints the maps of handlers and objects: as text, or one JSON object per line.
/// `code` is what is known of the code of processes.
pub(crate) fn print_maps(
    session: &Session,
    host: &Host,
    code: Option<&mut UserCode>,
    as_json: bool,
) -> Result<(), Failure> {
    let snapshots = session.map_snapshots()?;
    let (symbols, notes) = kestrel::session::maps::symbols(&snapshots, host, code);
    for note in notes {
        remark!("{}", shown(&note));
    }
    let mut stdout = crate::screen::out();
    for snapshot in snapshots.iter().filter(|s| !s.is_empty()) {
        let lines = if as_json {
            json(snapshot, &symbols).to_string()
        } else {
            text(snapshot, &symbols)
        };
        writeln!(stdout, "{lines}")?;
    }
    let mut shown = Ok(());
    session.each_object_map(&mut |path, map| {
        if shown.is_ok() && object_maps::is_readable(map) {
            shown = object_maps::print(&mut stdout, map, Some(path), as_json);
        }
    });
    shown
}
