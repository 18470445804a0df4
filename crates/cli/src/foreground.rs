//! Work in the foreground: it runs until the traced command or process ends, a time is over, or a signal asks for the end.

use crate::exit::{Exit, Failure};
use crate::output::object_maps;
use kestrel::bpf::BpfMap;
use kestrel::kernel::Host;
use kestrel::kernel::process::{CLOSER, Held, Interrupt, Signal, Watched, send};
use kestrel::session::Session;
use kestrel::session::target::Target;
use kestrel_trace::aggregate::{json, text};
use kestrel_trace::print::{are, counted};
use std::io::Write;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// What a command does again and again in the foreground.
pub(crate) trait Work {
    /// Whether it may become urgent while nothing is done.
    const FILLS: bool = false;

    /// Takes what has come since the last call, all of it where this is the `last` one; gives how long to sleep before the next.
    fn take(&mut self, last: bool) -> Result<Duration, Failure>;

    /// Whether it ends by itself.
    fn has_ended(&self) -> bool {
        false
    }

    /// Whether a ring is so full that nobody may sleep.
    fn is_urgent(&self) -> bool {
        false
    }
}

/// How often a sleeper looks whether the command has ended or a ring has filled.
const SLICE: Duration = Duration::from_millis(1);
/// How often a command is asked for its end that was told to end, and how long before it is killed.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(2);

/// What ends the work from outside.
pub(crate) struct Foreground {
    interrupt: Interrupt,
    duration: Option<Duration>,
    process: Option<Watched>,
    command: Option<Child>,
    /// Of the command, once it has ended by itself.
    status: Option<ExitStatus>,
}

impl Foreground {
    /// From now on a signal that asks for the end only ends the work.
    pub(crate) fn new(duration: Option<Duration>) -> Result<Self, Failure> {
        Ok(Self {
            interrupt: Interrupt::install()?,
            duration,
            process: None,
            command: None,
            status: None,
        })
    }

    /// Ends with a process, too. Old kernels cannot say when a process of another parent ends; then the user says it.
    pub(crate) fn with_process(mut self, pid: Option<u32>) -> Self {
        self.process = pid.and_then(|pid| Watched::open(pid).ok());
        self
    }

    /// Lets a held command go on to its exec, and ends with it.
    pub(crate) fn release(&mut self, held: Option<Held>) -> Result<(), Failure> {
        let release = |held: Held| held.release();
        self.command = held
            .map(release)
            .transpose()
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(())
    }

    /// Works until the end; a command that still runs then is ended.
    pub(crate) fn run<W: Work>(&mut self, work: &mut W) -> Result<(), Failure> {
        let worked = self.work(work);
        let ended = self.end_command();
        worked.and(ended)
    }

    /// The exit code: that of a traced command that failed, unless a signal ended it.
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
            let last = self.status.is_some()
                || self.interrupt.requested()
                || self.process.as_ref().is_some_and(Watched::has_ended)
                || work.has_ended()
                || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let sleep = work.take(last)?;
            if last {
                return Ok(());
            }
            let end = Instant::now() + sleep;
            self.sleep_until(deadline.map_or(end, |deadline| deadline.min(end)), work)?;
        }
    }

    /// Sleeps, but not beyond the end of the command, and not while a ring fills.
    fn sleep_until<W: Work>(&mut self, end: Instant, work: &W) -> Result<(), Failure> {
        loop {
            self.status = self.command_status()?;
            let left = end.saturating_duration_since(Instant::now());
            if self.status.is_some() || left.is_zero() || work.is_urgent() {
                return Ok(());
            }
            let in_slices = W::FILLS || self.command.is_some();
            std::thread::sleep(if in_slices { left.min(SLICE) } else { left });
        }
    }

    /// The command's status, once it has ended.
    fn command_status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let asked = self.command.as_mut().map_or(Ok(None), Child::try_wait);
        asked.map_err(|error| {
            Failure::new(
                Exit::Internal,
                format!("cannot ask for the command's status: {error}"),
            )
        })
    }

    /// Asks a command that still runs to end; Ctrl-C on the terminal reached it already.
    fn end_command(&mut self) -> Result<(), Failure> {
        let Some(pid) = self.command.as_ref().map(Child::id) else {
            return Ok(());
        };
        if self.command_status()?.is_some() {
            return Ok(());
        }
        let _ = send(pid, Signal::Terminate);
        let until = Instant::now() + PATIENCE;
        while self.command_status()?.is_none() {
            if Instant::now() > until {
                let _ = send(pid, Signal::Kill);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Hints at what to try where no event came.
pub(crate) fn hint_if_no_event(came: u64, session: &Session, target: Target) {
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

/// Detaches a session, what the kernel takes long for in a process of its own.
pub(crate) fn detach(session: &mut Session) {
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

/// Prints what the handlers' maps hold: as text, or one JSON object per line.
pub(crate) fn print_maps(session: &Session, host: &Host, as_json: bool) -> Result<(), Failure> {
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
            shown = print_object_map(&mut stdout, path, map, as_json);
        }
    });
    shown
}

/// Prints what a map of a compiled object holds.
fn print_object_map(out: &mut impl Write, path: &str, map: &BpfMap, as_json: bool) -> Result<(), Failure> {
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
