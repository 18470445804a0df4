//! Programs of the language over recordings (`kestrel run --trace`): what `script` is to a kernel, with the recording's records as events and its time as the
//! clock; no command line.

mod advice;
mod arguments;
mod calls;
mod events;
mod names;
mod needs;
mod plan;

pub use kestrel_replay::Missing;
pub use names::RecordedNames;

use crate::plan::ProgramText;
use crate::script::{Outcome, Perform, ProgramMaps};
use calls::Calls;
use kestrel_catalog::catalog::{Catalog, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::procfs::possible_cpus;
use kestrel_replay::{HandlerId, Replay, RunOutput, Subject};
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::calls::Renames;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::process::{Learner, Processes};
use kestrel_trace::record::Record;
use plan::Planned;

/// Options of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether it may run commands (`--unsafe`).
    pub allows_unsafe: bool,
}

/// A program that runs over a recording.
#[derive(Debug)]
pub struct Replaying {
    replay: Replay,
    begin: Vec<HandlerId>,
    end: Vec<HandlerId>,
    ticks: Vec<Tick>,
    /// When the first of the ticks is due.
    due_ns: u64,
    /// Budget of ticks in long times without records: each takes one, and more for what it prints.
    idle_ticks: u64,
    /// Ticks left out beyond that budget.
    skipped_ticks: u64,
    processes: Processes,
    learner: Learner,
    renames: Renames,
    /// The time that the program has come to.
    now_ns: u64,
    exit: Option<i64>,
    handlers: usize,
    warnings: Vec<(String, Diagnostic)>,
}

/// A timer of an `interval` or `profile` event.
#[derive(Debug)]
struct Tick {
    handler: HandlerId,
    every_ns: u64,
    next_ns: u64,
}

/// Ticks between two records that are always run.
const FREE_TICKS: u64 = 1000;
/// Most further ticks in all times between records: eight minutes at one a millisecond, five days at one a second.
const MAX_IDLE: u64 = 500_000;
/// Bytes printed by such a tick that count as another one: those of a table a thousand times a second fill no memory.
const IDLE_BYTES: usize = 512;

/// The maps of a program at a time.
struct Maps<'r> {
    replay: &'r mut Replay,
    now_ns: u64,
}

impl ProgramMaps for Maps<'_> {
    fn as_of(&mut self, name: &str, generation: u64) -> Result<Option<Snapshot>> {
        Ok(self.replay.snapshot(name, Some(generation), None, self.now_ns))
    }

    fn sweep(&mut self, name: &str, generation: u64, zeroed: bool) -> Result<()> {
        self.replay.sweep(name, generation, zeroed);
        Ok(())
    }

    fn all(&mut self) -> Result<Vec<Snapshot>> {
        let names: Vec<String> = self.replay.shown().map(|ty| ty.name.clone()).collect();
        let all = names.iter();
        Ok(all
            .filter_map(|name| self.replay.snapshot(name, None, None, self.now_ns))
            .collect())
    }
}

/// A failure of a run.
struct Failed(Error);

impl From<kestrel_replay::Error> for Failed {
    fn from(error: kestrel_replay::Error) -> Self {
        Self(Error::Compile {
            event: "the program".to_owned(),
            why: error.to_string(),
        })
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl Replaying {
    /// Prepares a program for a recording of which nothing was read. Types are those of this kernel, where it is the recorded one.
    ///
    /// # Errors
    /// An error of the program, a value that was not recorded, or the failure to read the recording.
    pub fn new(
        program: &ProgramText,
        options: Options,
        trace: &mut Trace,
        catalog: &Catalog,
    ) -> Result<Self> {
        let begin_ns = trace.reader.begin()?.unwrap_or(0);
        let info = trace.reader.info();
        let offset = names::date_offset(&info.clock);
        let release = catalog
            .host()
            .read("/proc/sys/kernel/osrelease")
            .unwrap_or_default();
        // Types, CPUs and numbers of system calls of another kernel would give wrong answers, not errors.
        let is_here = release.trim() == info.kernel_release;
        let cpus = is_here.then(possible_cpus).and_then(|cpus| cpus.ok());
        let types = is_here.then(|| catalog.types().ok()).flatten();
        let globals = Globals {
            allows_unsafe: options.allows_unsafe,
            max_map_keys: u32::try_from(program.config.max_map_keys).ok(),
            cpus: cpus.map_or(0, |cpus| cpus.iter().count() as u64),
            ..Globals::default()
        };
        let kernel = is_here.then_some(catalog);
        let calls = Calls::of(&info.events, trace.calls.as_ref(), kernel, &info.machine);
        let planned = plan::plan(
            program,
            (&info.events, &calls),
            &globals,
            &plan::RecordedKernel {
                types,
                tracepoint: &|name| needs::tracepoint(kernel?, name),
                has: &|spec| match kernel?.resolve(spec, Via::Auto) {
                    // A function without a place for ftrace resolves, and is refused when its probe is attached.
                    Ok(_) => Some(!function_of(spec).is_some_and(|name| {
                        kernel.is_some_and(|it| it.is_listed(name).is_ok_and(|listed| !listed))
                    })),
                    Err(Error::NoSuchEvent { .. } | Error::Unsupported { .. }) => Some(false),
                    Err(_) => None,
                },
                address: &|name| trace.symbols.address_of(name),
            },
            (begin_ns, offset),
        )?;
        let renames = Renames::new(&calls.signatures);
        Ok(Self::of(planned, begin_ns, trace.processes.clone(), renames))
    }

    /// A program that was planned, over a recording that begins at a time.
    fn of(planned: Planned, begin_ns: u64, processes: Processes, renames: Renames) -> Self {
        let Planned {
            replay,
            begin,
            end,
            every,
            events,
            warnings,
        } = planned;
        let tick = |(handler, every_ns): (HandlerId, u64)| Tick {
            handler,
            every_ns,
            next_ns: begin_ns.saturating_add(every_ns),
        };
        let mut all = Self {
            replay,
            begin,
            end,
            ticks: every.into_iter().map(tick).collect(),
            due_ns: u64::MAX,
            idle_ticks: MAX_IDLE,
            skipped_ticks: 0,
            processes,
            learner: Learner::default(),
            renames,
            now_ns: begin_ns,
            exit: None,
            handlers: events,
            warnings,
        };
        all.due_ns = all.due();
        all
    }

    /// Warnings about the program, each with its text.
    pub fn warnings(&self) -> &[(String, Diagnostic)] {
        &self.warnings
    }

    /// Number of handlers, counted for each of their events.
    pub fn handlers(&self) -> usize {
        self.handlers
    }

    /// The code of `exit`, once that was called.
    pub fn exit(&self) -> Option<i64> {
        self.exit
    }

    /// Number of records of output that were lost because a run wrote too much.
    pub fn lost(&self) -> u64 {
        self.replay.lost()
    }

    /// The reads of memory that was not recorded, by the names of their events.
    pub fn missing(&self) -> Vec<(&str, Missing)> {
        self.replay.missing()
    }

    /// Says up to when records may be missing before the next one, as the trace's reader gives it with the record.
    #[inline]
    pub fn set_gap(&mut self, gap_ns: u64) {
        self.replay.set_gap(gap_ns);
    }

    /// Number of returns with memory that were not paired with the entries of their calls, because records may be missing between them.
    pub fn unpaired(&self) -> u64 {
        self.replay.unpaired()
    }

    /// Runs the handlers of `begin`.
    ///
    /// # Errors
    /// Errors of `perform`.
    pub fn begin(&mut self, perform: &mut Perform) -> Result<()> {
        self.run_handlers(&self.begin.clone(), perform)
    }

    /// Runs what is due before a record, then its handlers. For every record, in order, until `exit`; of those that are not wanted only names are learned.
    ///
    /// # Errors
    /// As [`Replaying::begin`].
    #[inline]
    pub fn record(&mut self, record: &Record<'_>, wanted: bool, perform: &mut Perform) -> Result<()> {
        self.learner.learn(record, &mut self.processes);
        self.renames.learn(record, &mut self.processes);
        if self.due_ns <= record.time_ns {
            self.ticks(record.time_ns, perform)?;
        }
        self.replay.remember(record);
        if !wanted || self.exit.is_some() || !self.replay.wants(record.event.id) {
            return Ok(());
        }
        if perform
            .unwatched
            .iter()
            .any(|address| is_watchpoint(record, *address))
        {
            return Ok(());
        }
        self.now_ns = record.time_ns;
        let (exit, now_ns) = (&mut self.exit, self.now_ns);
        let each = &mut |replay: &mut Replay, written: RunOutput| -> std::result::Result<(), Failed> {
            Ok(performed(replay, &written, now_ns, perform, exit)?)
        };
        self.replay
            .record(record, &self.processes, each)
            .map_err(|Failed(error)| error)
    }

    /// Runs the handlers of `end`.
    ///
    /// # Errors
    /// As [`Replaying::begin`].
    pub fn end(&mut self, perform: &mut Perform) -> Result<()> {
        // A handler of `end` has the last word.
        let code = self.exit.take();
        self.run_handlers(&self.end.clone(), perform)?;
        self.exit = self.exit.or(code);
        Ok(())
    }

    /// Shows all maps, as at the program's end.
    ///
    /// # Errors
    /// As [`Replaying::begin`].
    pub fn maps(&mut self, perform: &mut Perform) -> Result<()> {
        perform.maps(&mut Maps {
            replay: &mut self.replay,
            now_ns: self.now_ns,
        })
    }

    fn due(&self) -> u64 {
        self.ticks
            .iter()
            .map(|tick| tick.next_ns)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Runs the intervals that are due up to a time. A damaged recording may say that months passed: of ticks without records between them a bounded number is
    /// run, and a smaller one where they print much.
    #[cold]
    fn ticks(&mut self, until_ns: u64, perform: &mut Perform) -> Result<()> {
        let mut count = 0;
        while self.due_ns <= until_ns && self.exit.is_none() {
            let is_idle = count >= FREE_TICKS;
            if is_idle && self.idle_ticks == 0 {
                self.skip_ticks(until_ns);
                break;
            }
            count += 1;
            let before = perform.out.len();
            self.tick(perform)?;
            if is_idle {
                let printed = perform.out.len().saturating_sub(before) / IDLE_BYTES;
                self.idle_ticks = self.idle_ticks.saturating_sub(1 + printed as u64);
            }
        }
        Ok(())
    }

    fn skip_ticks(&mut self, until_ns: u64) {
        for tick in &mut self.ticks {
            let late = until_ns
                .checked_sub(tick.next_ns)
                .map_or(0, |late| late / tick.every_ns.max(1) + 1);
            tick.next_ns = tick.next_ns.saturating_add(late.saturating_mul(tick.every_ns));
            self.skipped_ticks = self.skipped_ticks.saturating_add(late);
        }
        self.due_ns = self.due();
    }

    /// Number of interval ticks that were left out in long times without records.
    pub fn skipped_ticks(&self) -> u64 {
        self.skipped_ticks
    }

    /// Runs the intervals that are due first.
    fn tick(&mut self, perform: &mut Perform) -> Result<()> {
        self.now_ns = self.due_ns;
        let mut handlers = Vec::new();
        for tick in self.ticks.iter_mut().filter(|tick| tick.next_ns == self.due_ns) {
            handlers.push(tick.handler);
            tick.next_ns = tick.next_ns.saturating_add(tick.every_ns);
        }
        self.due_ns = self.due();
        self.run_handlers(&handlers, perform)
    }

    /// Runs handlers of the program's own events, now.
    fn run_handlers(&mut self, handlers: &[HandlerId], perform: &mut Perform) -> Result<()> {
        for &handler in handlers {
            let subject = Subject::at(self.now_ns, &self.processes, std::process::id());
            let written = self.replay.run(handler, &subject);
            if let Some(written) = written.map_err(|error| Failed::from(error).0)? {
                performed(&mut self.replay, &written, self.now_ns, perform, &mut self.exit)?;
            }
        }
        Ok(())
    }
}

/// Performs what a run has written.
fn performed(
    replay: &mut Replay,
    written: &RunOutput,
    now_ns: u64,
    perform: &mut Perform,
    exit: &mut Option<i64>,
) -> Result<()> {
    for record in written.records() {
        let mut maps = Maps { replay, now_ns };
        if let Outcome::Exit(code) = perform.record(&mut maps, &record)? {
            exit.get_or_insert(code);
            break;
        }
    }
    Ok(())
}

/// Whether a record is of a watchpoint of an address.
fn is_watchpoint(record: &Record<'_>, address: u64) -> bool {
    let name = record.event.name.strip_prefix("watchpoint:");
    name.is_some_and(|name| name.starts_with(&format!("{address:#x}:")))
}

/// The function that a specification of a kprobe or kretprobe names, where it names one.
fn function_of(spec: &EventSpec) -> Option<&str> {
    match spec.parts.as_slice() {
        [kind, name] if matches!(kind.text.as_str(), "kprobe" | "k" | "kretprobe" | "kr") => {
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
            name.text.chars().all(is_word).then_some(&name.text)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::SystemNames;
    use kestrel_kernel::Host;
    use kestrel_trace::symbol::Symbols;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000_000;

    /// A program over a recording without events that begins at 0, and what performs it.
    fn replaying(text: &str) -> (Replaying, Perform) {
        let program = ProgramText::read("-e", text, Default::default(), &Default::default()).unwrap();
        let (calls, globals) = (Calls::default(), Globals::default());
        let planned = plan::plan(
            &program,
            (&[], &calls),
            &globals,
            &plan::RecordedKernel::UNKNOWN,
            (0, 0),
        )
        .unwrap();
        let renames = Renames::new(&calls.signatures);
        let host = Host::new("nowhere");
        let names = Arc::new(SystemNames::new(host.clone()));
        let perform = Perform::of_recording(Symbols::default(), names, host, false);
        (Replaying::of(planned, 0, Processes::default(), renames), perform)
    }

    #[test]
    fn a_time_far_ahead_is_reached_by_a_bounded_number_of_ticks() {
        // A damaged perf.data, whose last record was 52 days after the one before it.
        let (mut replaying, mut perform) = replaying("interval:s:1 { @n = count() }");
        let seconds = 4_503_600;
        replaying.ticks(seconds * SECOND, &mut perform).unwrap();
        assert_eq!(replaying.skipped_ticks(), seconds - FREE_TICKS - 500_000);
        assert_eq!(replaying.due_ns, (seconds + 1) * SECOND);
        // Later ticks come as ever.
        replaying.ticks((seconds + 3) * SECOND, &mut perform).unwrap();
        assert_eq!(replaying.skipped_ticks(), seconds - FREE_TICKS - 500_000);
        assert_eq!(replaying.due_ns, (seconds + 4) * SECOND);
    }

    #[test]
    fn ticks_that_print_much_are_fewer() {
        let (mut replaying, mut perform) = replaying("interval:s:1 { printf(\"%600d\\n\", 1) }");
        replaying.ticks(FREE_TICKS * SECOND, &mut perform).unwrap();
        assert_eq!(replaying.idle_ticks, MAX_IDLE);
        replaying.idle_ticks = 10;
        replaying.ticks(3 * FREE_TICKS * SECOND, &mut perform).unwrap();
        let ran = 2 * FREE_TICKS + 5;
        assert_eq!(perform.out.len() as u64, ran * 601);
        assert_eq!(replaying.skipped_ticks(), 3 * FREE_TICKS - ran);
    }
}
