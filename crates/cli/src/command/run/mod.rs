//! `kestrel run`: a program of the language, as bpftrace runs it.

mod bpftrace;
mod encoding;
mod failures;
mod files;
mod info;
mod listing;
mod losses;
mod message;
mod modes;
mod options;
mod pins;
mod read;
mod recorded;
mod rings;
mod target;
mod unwinding;
mod verdict;

pub(crate) use bpftrace::main as as_bpftrace;
pub(crate) use options::Options;

use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach};
use crate::live::{Live, maps};
use crate::selection::hold;
use failures::{Failures, Messages};
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::process::{PausedCommand, UserSignal};
use kestrel::language::config::MissingProbes;
use kestrel::plan::{Options as PlanOptions, Plan, ProbeFilter, ProgramText, Source};
use kestrel::script::{PacketFiles, Perform, Running};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use kestrel_trace::output::{Benchmark, Verdict};
use kestrel_trace::print::raw;
use options::{Buffering, OutputFormat, RunMode};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufWriter, LineWriter, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause between two polls while records wait for others that may be earlier.
const PAUSE_WHILE_WAITING: Duration = Duration::from_millis(10);
/// The same where the program reads files or runs commands, which may be about processes that end soon.
const PAUSE_BEFORE_ACTIONS: Duration = Duration::from_millis(1);
/// The pause where nothing waits and the first record will end it.
const PAUSE_WITH_BELL: Duration = Duration::from_millis(200);

/// The pause while iterators walk, which is over soon.
const WALKING: Duration = Duration::from_millis(1);

/// The pause where the code of processes is followed.
const FOLLOWING: Duration = Duration::from_millis(50);

/// Runs `kestrel run`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.info {
        return info::run();
    }
    if options.formats() {
        return formatted(options);
    }
    if let Some(trace) = &options.trace {
        return recorded::run(options, trace);
    }
    let target = target::target(options, &Host::default())?;
    let process = match &target {
        ProcessFilter::Processes(processes) => processes.first().copied(),
        _ => None,
    };
    let catalog = Catalog::new(Host::default()).with_debug_files(options.debuginfo.clone());
    let catalog = catalog.for_script(process);
    let forces_places = options.r#unsafe;
    let catalog = match forces_places {
        true => catalog.with_forced_places(),
        false => catalog,
    };
    if options.list && !listing::is_program(options) {
        let traceable = options
            .traceable_functions
            .as_deref()
            .map(traceable)
            .transpose()?;
        return listing::matching(options, &catalog, traceable.as_deref());
    }
    let held = match &options.command {
        Some(command) if !options.list => hold(&split(command))?,
        _ => None,
    };
    if let (Some(_), None, false) = (&options.command, &held, options.list) {
        return Err(Failure::new(Exit::Usage, "-c names no command"));
    }
    let catalog = match &held {
        Some(held) => catalog.with_command(held.pid(), held.program()),
        None => catalog,
    };
    let catalog = catalog.without_multi_links(
        options.does_without("kprobe_multi"),
        options.does_without("uprobe_multi"),
    );
    let mut program = read::program(options, held.as_ref().map(PausedCommand::pid))?;
    if options.list {
        program.config.max_probes = u64::MAX;
    } else if !options.only_compiles() {
        modes::keep_events_of_mode(&mut program, options.mode())
            .map_err(|failure| verdict::not_attached(options, failure))?;
    }
    let unwound: Vec<u32> = (process.into_iter())
        .chain(held.as_ref().map(PausedCommand::pid))
        .chain(options.dwarf_pid.iter().copied())
        .collect();
    let plan = plan(&program, options, (&target, !unwound.is_empty()), &catalog)?;
    if options.list {
        return listing::of_program(&plan, options, &catalog);
    }
    if options.verbose && options.as_bpftrace {
        verdict::announce_attached(&plan);
    }
    if options.verbose && !options.as_bpftrace || !options.debug.is_empty() {
        eprint!("{}", kestrel::plan::show(&plan, true)?);
    }
    if options.only_compiles() {
        return kestrel::plan::show(&plan, true)
            .map(|_| Exit::Done)
            .map_err(Failure::from);
    }
    let live = options.live.view(held.is_some())?;
    let mut foreground = Foreground::new(None)?.with_target(&target, catalog.host());
    let session = Session::start(&plan, &catalog, &crate::arguments::command_line());
    let session = session.map_err(|error| verdict::not_attached(options, error.into()))?;
    if program.config.missing_probes == MissingProbes::Warn && !options.no_warnings {
        for skipped in session.skipped() {
            eprintln!(
                "WARNING: could not attach {}, skipping: {}",
                skipped.event, skipped.why
            );
        }
    }
    if let (None, Some(first)) = (session.attached(&plan).next(), session.skipped().first()) {
        let why = format!("{}: {}", first.event, first.why);
        let failure = Failure::new(Exit::Failed, "Attachment failed for all probes.").hint(why);
        return Err(verdict::not_attached(options, failure));
    }
    let symbols = kestrel::record::live_symbols(&session, catalog.host());
    let json = options.format == OutputFormat::Json;
    let mut perform = Perform::new(symbols, catalog.host().clone(), json);
    perform.no_warnings = options.no_warnings;
    perform.lost_by_place = counts_updates(options);
    perform.configure(&program.config);
    perform.escaped = !json && options.output.is_none() && crate::screen::shows_programs();
    unwinding::learn_all(&session, &unwound, held.as_ref());
    perform.unwound = unwound;
    perform.interrupted = foreground.interrupt_flag();
    if let Err(error) = perform.follow(&session) {
        eprintln!("WARNING: stacks of processes show addresses: {error}");
    }
    let kinds: Vec<&str> = session.attached(&plan).map(|(hook, _)| hook.kind).collect();
    let runs_once = modes::runs_once(&kinds);
    let running = Running::new(session);
    let acts_at_once = running.acts_at_once();
    let failures = Rc::new(RefCell::new(Failures::default()));
    // Failures of a test decide whether it passes.
    if options.mode().is_none() && !options.no_warnings {
        perform.failures = Some(Box::new(Messages {
            reported: failures.clone(),
            name: program.name.clone(),
            text: program.text.clone(),
            json,
            as_bpftrace: options.as_bpftrace,
        }));
    }
    let mut work = ProgramRun {
        running,
        packets: None,
        perform,
        out: output(options)?,
        prints_maps: program.config.print_maps_on_exit,
        losses_reported: Instant::now(),
        signal: None,
        runs_once,
        acts_at_once,
        walking: false,
        failures,
        live,
        program: &program,
        options,
    };
    // It ends no program, whether or not it has handlers for it.
    work.signal = Some(UserSignal::first()?);
    if options.dry_run {
        // `bpftrace --dry-run` prints nothing.
        if !options.as_bpftrace {
            work.attached(&plan, options)?;
        }
        work.detach();
        return Ok(Exit::Done);
    }
    let pages = program.config.perf_rb_pages.unwrap_or(PACKET_PAGES).max(1);
    // The kernel takes powers of two.
    let pages = 1 << pages.ilog2();
    work.packets = PacketFiles::open(work.running.session(), &plan.globals.packets, pages)?;
    // A program that waits for the message that all is attached may go on at once: events must be let in by then.
    work.running.begin(&mut work.perform)?;
    work.attached(&plan, options)?;
    pins::leave(work.running.session(), work.perform.form(), &mut work.out)?;
    if held.is_none() {
        work.walk()?;
    }
    work.write()?;
    if let Some(mode) = options.mode() {
        let failed = match mode {
            RunMode::Bench => work.bench()?,
            _ => work.test()?,
        };
        work.poll(true)?;
        work.detach();
        return match failed {
            true => Ok(Exit::Failed),
            false => Ok(Exit::Done),
        };
    }
    let starts_command = held.is_some();
    unwinding::release(&mut foreground, held, work.running.session(), catalog.host())?;
    if starts_command {
        // Iterators are to find the command itself, not the process that waits to become it.
        work.walk()?;
    }
    foreground.run(&mut work)?;
    if options.as_bpftrace
        && options.verbose
        && let Some(status) = foreground.command_status()?
    {
        verdict::say_how_the_command_ended(status);
    }
    work.detach();
    match work.running.exit() {
        Some(code) if code != 0 => Ok(Exit::of_script(code)),
        _ => Ok(Exit::Done),
    }
}

/// Prints a file in the language's layout.
fn formatted(options: &Options) -> Result<Exit, Failure> {
    let (name, text) = read::text(options)?;
    let tidy = kestrel::language::format::format(&text).map_err(|diagnostics| {
        let error = kestrel::Error::Program {
            source_text: text.clone(),
            diagnostics,
        };
        message::failure(options, &name, error)
    })?;
    // A file has it as it is.
    match crate::screen::shows_programs() {
        true => crate::screen::out().write_all(tidy.as_bytes())?,
        false => crate::screen::of_program().write_all(&raw::to_bytes(&tidy))?,
    }
    Ok(Exit::Done)
}

/// Opens the output of the program: a file or standard output.
fn output(options: &Options) -> Result<Box<dyn Write>, Failure> {
    let out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(std::fs::File::create(path).map_err(|error| {
            let why = crate::style::system_words(&error);
            Failure::new(
                Exit::Failed,
                format!("Failed to open output file: \"{}\": {why}", path.display()),
            )
        })?),
        None if options.format == OutputFormat::Json => Box::new(crate::screen::out()),
        None => Box::new(crate::screen::of_program()),
    };
    Ok(match options.buffering {
        Buffering::None => out,
        Buffering::Line => Box::new(LineWriter::new(out)),
        Buffering::Full => Box::new(BufWriter::new(out)),
    })
}

fn plan(
    program: &ProgramText,
    given: &Options,
    (target, unwinds): (&ProcessFilter, bool),
    catalog: &Catalog,
) -> Result<Plan, Failure> {
    let config = &program.config;
    let page = 4096;
    let compiled = |text: &str| {
        ProbeFilter::new(text).map_err(|why| {
            let message = format!("Invalid --probe-filter regex '{text}': {why}");
            Failure::new(Exit::Usage, message)
        })
    };
    let probe_filter = given.probe_filter.as_deref().map(compiled).transpose()?;
    let traceable = given.traceable_functions.as_deref().map(traceable).transpose()?;
    let options = PlanOptions {
        mode: Some(Mode::Stream),
        bell: Bell::Records,
        target: target.clone(),
        only_own: true,
        probe_filter,
        traceable,
        unwinds,
        allows_unsafe: given.r#unsafe,
        // A session is a link for many.
        separate_returns: given.does_without("kprobe_session") || given.does_without("kprobe_multi"),
        counts_failures: given.helper_errors > 0 || given.mode() == Some(RunMode::Test),
        counts_updates: counts_updates(given),
        max_map_keys: u32::try_from(config.max_map_keys).ok(),
        buffer_bytes: Some(
            config
                .perf_rb_pages
                .map_or_else(|| rings::bytes(program), |pages| pages * page),
        ),
        ..PlanOptions::default()
    };
    let plan = kestrel::plan::plan(Source::Program(program), &options, catalog)
        .map_err(|error| message::failure(given, &program.name, error))?;
    message::warnings(given, &program.name, &plan.warnings);
    Ok(plan)
}

/// Whether updates that a full map lost are reported with their places in the program: with `-k`, and in JSON, whose lines have places.
fn counts_updates(given: &Options) -> bool {
    given.helper_errors > 0 || given.format == OutputFormat::Json
}

/// The functions that a file lists, one on a line, its module behind it.
fn traceable(path: &Path) -> Result<Arc<HashSet<String>>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let why = crate::style::system_words(&error);
        let message = format!("failed to open the list of functions '{}': {why}", path.display());
        Failure::new(Exit::Usage, message)
    })?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(Arc::new(names.map(str::to_owned).collect()))
}

/// The words of a command.
fn split(command: &str) -> Vec<OsString> {
    command.split_whitespace().map(OsString::from).collect()
}

/// A program that runs.
struct ProgramRun<'a> {
    running: Running,
    /// Where packets go that are handed over.
    packets: Option<PacketFiles>,
    perform: Perform,
    out: Box<dyn Write>,
    prints_maps: bool,
    /// When losses were said last.
    losses_reported: Instant,
    /// Where the program has handlers for it.
    signal: Option<UserSignal>,
    /// Whether nothing can happen any more once its `begin` has run and its iterators have walked, whatever its command or process does.
    runs_once: bool,
    /// Whether they still do.
    walking: bool,
    /// Whether it reads files or runs commands.
    acts_at_once: bool,
    /// Failures of helpers that have been said.
    failures: Rc<RefCell<Failures>>,
    /// Live values of maps.
    live: Live,
    program: &'a ProgramText,
    options: &'a Options,
}

/// The event of a signal to this process.
const USER_SIGNAL: &str = "self:signal:SIGUSR1";

/// Pages of each CPU's ring for packets, where the program does not say.
const PACKET_PAGES: u64 = 64;

impl ProgramRun<'_> {
    /// Lets its iterators walk, while the rest goes on.
    fn walk(&mut self) -> Result<(), Failure> {
        self.running.walk()?;
        self.walking = self.running.is_walking()?;
        Ok(())
    }

    /// Detaches the session. Under bpftrace's name detaching in the background is not reported: the line would stand among the maps.
    fn detach(&mut self) {
        let session = self.running.session_mut();
        match self.options.as_bpftrace {
            true => _ = session.detach_in_background(),
            false => detach(session),
        }
    }

    /// Says how many probes are attached.
    fn attached(&mut self, plan: &Plan, options: &Options) -> Result<(), Failure> {
        let attached = self.running.session().attached(plan);
        let probes: usize = attached.map(|(_, probes)| probes).sum();
        // Tests and benchmarks say themselves what runs.
        if !options.quiet && options.mode().is_none() {
            let form = self.perform.form();
            let line = form.attached(probes as u64);
            match form.json {
                true => self.out.write_all(line.as_bytes())?,
                // It is no output of the program's.
                false => crate::screen::err().write_all(line.as_bytes())?,
            }
        }
        self.out.flush()?;
        if std::env::var_os("__BPFTRACE_NOTIFY_PROBES_ATTACHED").is_some() {
            println!("__BPFTRACE_NOTIFY_PROBES_ATTACHED");
        }
        Ok(())
    }

    /// Runs the handlers of a signal that came.
    fn take_signal(&mut self) -> Result<(), Failure> {
        if self.signal.as_ref().is_some_and(UserSignal::take) {
            self.running.fire(USER_SIGNAL)?;
        }
        Ok(())
    }

    /// Writes what was printed.
    fn write(&mut self) -> Result<(), Failure> {
        if !self.perform.out.is_empty() || !self.perform.err.is_empty() {
            self.live.erase()?;
        }
        Ok(self.perform.write(&mut self.out, &mut crate::screen::err())?)
    }

    /// Runs the benchmarks, one after the other, and prints how long one run of each takes; says whether any failed. What they print themselves, again and
    /// again, is not shown. Each runs once before it is measured, and fails by what it then returns, or exits with, other than 0, or by an error that it says.
    fn bench(&mut self) -> Result<bool, Failure> {
        let (mut results, mut any_failed) = (Vec::new(), false);
        for (event, name) in self.own_events("bench:") {
            let before = self.perform.errors;
            let (code, _) = self.running.test(&event, &mut self.perform)?;
            let messages = std::mem::take(&mut self.perform.err);
            self.perform.clear();
            if code != 0 || self.perform.errors != before {
                any_failed = true;
                self.out.flush()?;
                crate::screen::err().write_all(&messages)?;
                let word = if self.options.as_bpftrace {
                    "ERROR"
                } else {
                    "error"
                };
                writeln!(crate::screen::err(), "{word}: Benchmark '{name}' failed.")?;
                continue;
            }
            let (runs, nanoseconds) = self.running.bench(&event, &mut self.perform)?;
            self.perform.clear();
            results.push(Benchmark {
                name,
                nanoseconds,
                runs,
            });
        }
        self.out
            .write_all(&modes::form(self.options).benchmarks(&results))?;
        Ok(any_failed)
    }

    /// Runs the tests, one after the other, and prints what failed printed; says whether any did. A test fails that returns or exits with something
    /// else than 0, one in which a helper fails, and one that says an error (`errorf`).
    fn test(&mut self) -> Result<bool, Failure> {
        let form = modes::form(self.options);
        let tests = self.own_events("test:");
        if tests.is_empty() {
            return Ok(false);
        }
        let mut verdicts = Vec::new();
        self.out.write_all(form.before(tests.len()).as_bytes())?;
        for (event, name) in tests {
            self.out.write_all(form.running(&name).as_bytes())?;
            // A line of JSON has as text what the test printed.
            self.perform.json = false;
            let before = self.perform.errors;
            let tested = self.running.test(&event, &mut self.perform);
            self.perform.json = form.json;
            let (code, nanoseconds) = tested?;
            let failures = self
                .failures
                .borrow_mut()
                .since(self.running.session().failures()?);
            let passed = code == 0 && failures.is_empty() && self.perform.errors == before;
            let printed = std::mem::take(&mut self.perform.out);
            let messages = std::mem::take(&mut self.perform.err);
            self.perform.clear();
            let verdict = Verdict {
                name,
                passed,
                nanoseconds,
                printed,
            };
            if !passed {
                self.out.flush()?;
                crate::screen::err().write_all(&messages)?;
                self.say(&failures);
            }
            self.out.write_all(&form.verdict(&verdict))?;
            verdicts.push(verdict);
        }
        self.out.write_all(form.after(&verdicts).as_bytes())?;
        Ok(verdicts.iter().any(|verdict| !verdict.passed))
    }

    /// The events of the program's own whose names begin so, and what follows in their names.
    fn own_events(&self, prefix: &str) -> Vec<(String, String)> {
        let all = self.running.session().own_events().into_iter();
        all.filter_map(|event| {
            let name = event.strip_prefix(prefix)?.to_owned();
            Some((event, name))
        })
        .collect()
    }
}

impl Work for ProgramRun<'_> {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        self.walking = self.running.is_walking()?;
        if last {
            self.live.erase()?;
            // A signal that came just before the end.
            self.take_signal()?;
            // Whatever fails here, what the maps hold is printed first.
            let ended = self.running.end(&mut self.perform);
            self.perform.say_not_run();
            let counted = self.losses(true).and_then(|()| self.lost_packets());
            if !self.prints_maps || self.options.mode().is_some() {
                let end = self.perform.form().end();
                self.perform.out.extend_from_slice(end.as_bytes());
            } else {
                self.perform.maps(&mut self.running.session())?;
            }
            self.write()?;
            self.out.flush()?;
            ended?;
            counted?;
            return Ok(Duration::ZERO);
        }
        self.perform.poll()?;
        // Before the rings are read: what the handlers of the signal print is in this round then.
        self.take_signal()?;
        let came = self.running.poll(&mut self.perform)?;
        self.packets.as_mut().map_or(Ok(()), PacketFiles::poll)?;
        self.write()?;
        self.losses(false)?;
        if self.live.is_due() {
            self.out.flush()?;
            let session = self.running.session();
            self.live.show(|| maps(session, session.host()))?;
        }
        let pause = match came {
            0 if self.walking => WALKING,
            0 if self.running.has_waiting() && self.acts_at_once => PAUSE_BEFORE_ACTIONS,
            0 if self.running.has_waiting() => PAUSE_WHILE_WAITING,
            0 if self.perform.follows() || self.packets.is_some() => FOLLOWING,
            0 => PAUSE_WITH_BELL,
            _ => Duration::ZERO,
        };
        let due = self.running.until_due();
        Ok(self.live.pause(due.map_or(pause, |due| due.min(pause))))
    }

    fn has_ended(&self) -> bool {
        !self.walking && (self.runs_once || self.running.exit().is_some())
    }

    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        let bell = self.running.session().bell();
        bell.filter(|_| !self.running.has_waiting()).into_iter().collect()
    }
}
