//! `kestrel stat`: how often events happen, counted in the kernel.

mod figures;
mod interval;
mod layout;
mod output;

use crate::arguments::{duration, milliseconds, pid as number};
use crate::events::Events;
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work};
use crate::live::{Live, LiveOption};
use crate::output::Format;
use crate::screen::set_quiet;
use crate::selection::hold;
use crate::status_line::StatusLine;
use crate::style;
use crate::targets::check_process;
use clap::{ArgGroup, Args};
use figures::{Run, figures};
use interval::since;
use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::kernel::process::{Watched, children_times};
use kestrel::kernel::procfs::{CpuList, online_cpus};
use kestrel::session::Uncounted;
use kestrel::stat::{Amount, Cgroup, Count, CountRequest, Event, Scope, Split, Stat};
use kestrel_trace::print::{are, counted, were};
use layout::{Layout, RunTimes};
use output::Output;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `stat`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("events", |events| events.help(EVENTS_HELP)))]
#[command(mut_arg("live", |live| live.conflicts_with("interval")))]
#[command(group = ArgGroup::new("scope").args(["pid", "thread", "cpus", "cgroup"]))]
#[command(mut_arg("all", |all| all.conflicts_with_all(["pid", "thread"])))]
#[command(group = ArgGroup::new("split").args(["per_cpu", "per_thread", "by"]))]
pub(crate) struct Options {
    #[command(flatten)]
    events: Events,
    /// Count events of all processes (the default without a command)
    #[arg(short, long, alias = "all-cpus")]
    all: bool,
    /// Count events of these processes, with all their threads, until they exit: what happens while they run, not what others do to them
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', value_parser = number)]
    pid: Vec<u32>,
    /// Count events of these threads, until they exit
    #[arg(
        short,
        long = "tid",
        id = "thread",
        value_name = "TID,…",
        value_delimiter = ','
    )]
    thread: Vec<u32>,
    /// Count events on these CPUs, of all processes: 0,2-3
    #[arg(short = 'C', long = "cpu", id = "cpus", value_name = "CPUS", value_parser = cpus)]
    cpus: Option<CpuList>,
    /// Count events of the tasks of this cgroup and of those below it: a path, or one below the mount point
    #[arg(short = 'G', long, value_name = "CGROUP")]
    cgroup: Option<String>,
    /// Print the counts of each interval of this many milliseconds, as `perf stat -I`; with a unit, of such a time: 1s
    #[arg(short = 'I', long, value_name = "MS", value_parser = milliseconds)]
    interval: Option<u64>,
    #[command(flatten)]
    live: LiveOption,
    /// Run the command so many times; print means and relative standard deviations (±)
    #[arg(short, long = "repeat", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "interval")]
    repeat: u32,
    /// Stop after this time: seconds, or with ms, s, m, h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// A row for each CPU
    #[arg(short = 'A', long)]
    per_cpu: bool,
    /// A row for each thread
    #[arg(long)]
    per_thread: bool,
    /// A row for each value of expressions, of events of tracers: `comm`, `args.prio`, `comm, args.target_cpu`
    #[arg(long, value_name = "EXPR")]
    by: Option<String>,
    /// Print columns with SEP between them, in perf's order
    #[arg(short = 'x', long, value_name = "SEP", conflicts_with = "format")]
    field_separator: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write to a file instead of the terminal; what was in it is replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Append to the file of -o
    #[arg(long, requires = "output")]
    append: bool,
    /// Write to this file descriptor, which the shell has opened: `--log-fd 3 3>counts.txt`
    #[arg(long, value_name = "FD", conflicts_with = "output", value_parser = clap::value_parser!(i32).range(0..))]
    log_fd: Option<i32>,
    /// Print nothing besides the figures but errors and what was missed
    #[arg(short, long)]
    quiet: bool,
    /// A command to run and count, from its exec to its exit, children included; -- before it may be left out
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EVENTS_HELP: &str = "An event: a counter (`cycles`, `page-faults`, `instructions:u`, `r01c2`, `cpu/event=0x3c/`), a group of counters \
(`{cycles,instructions}`), or an event of a tracer as `record` takes it, with globs and a predicate; may be repeated (or several with commas between \
them). @FILE: the events of a file in the layout of tracefs's set_event";

const EXAMPLES: &str = "\
Examples:
  kestrel stat -- make                                    perf's usual counters of a command and its children
  kestrel stat -e 'syscalls:sys_enter_*' -- ls            how often it makes which system call
  kestrel stat -e 'sched:sched_switch /args.prev_state == 0/' -a --duration 5
  kestrel stat -e cycles,instructions,page-faults -p 1234
  kestrel stat -e '{cycles,instructions}' -e cache-misses:u -r 10 -- ./bench
  kestrel stat -e 'kprobe:vfs_*' -a -I 1000               what falls into each second
  kestrel stat -e sched:sched_wakeup --by comm,args.target_cpu -a --duration 5
  kestrel stat -e irq:irq_handler_entry -a --per-cpu -x, --duration 1

With a command the figures go to standard error, as perf's do, since standard output is the command's; without one to standard output; with -o
to a file. Rows come in the order of -e. `kestrel list` shows the events.";

fn cpus(text: &str) -> Result<CpuList, String> {
    let list = CpuList::parse(text).map_err(|error| error.to_string())?;
    match list.is_empty() {
        true => Err("it should read 0 or 0,2-3".to_owned()),
        false => Ok(list),
    }
}

/// The longest sleep between two looks at signals and processes that are watched.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `kestrel stat`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    set_quiet(options.quiet);
    let catalog = Catalog::new(Host::default());
    check(options, catalog.host())?;
    // Before anything of the kernel is opened: its number must not be that of a file which was opened here.
    let mut output = Output::open(
        options.output.as_deref(),
        options.append,
        options.log_fd,
        !options.command.is_empty(),
    )?;
    let mut runs: Vec<Run> = Vec::new();
    let mut last: Option<Finished> = None;
    for _ in 0..options.repeat {
        let finished = once(options, &catalog, &mut output)?;
        runs.push(finished.run.clone());
        let ends = finished.interrupted;
        last = Some(finished);
        if ends {
            break;
        }
    }
    let Some(last) = last else {
        return Ok(Exit::Done);
    };
    if options.interval.is_none() {
        let layout = layout(options);
        let rows = layout.rows(&figures(&last.events, &runs), None);
        let taken = RunTimes {
            runs: &runs,
            used: last.used,
        };
        let title = layout.title(&title(options), runs.len());
        output.write(&(title + &rows + &layout.footer(&taken)))?;
    }
    Ok(last.exit)
}

/// Results of one finished run.
struct Finished {
    run: Run,
    events: Vec<Event>,
    used: Option<(Duration, Duration)>,
    interrupted: bool,
    exit: Exit,
}

fn layout(options: &Options) -> Layout {
    match (&options.field_separator, options.format) {
        (Some(separator), _) => Layout::Columns(separator.clone()),
        (None, Format::Json) => Layout::Json,
        (None, Format::Text) => Layout::Text,
    }
}

fn title(options: &Options) -> String {
    let numbers = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        numbers.join(",")
    };
    let command: Vec<_> = options
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    match options {
        Options { pid, .. } if !pid.is_empty() => format!("process id '{}'", numbers(pid)),
        Options { thread, .. } if !thread.is_empty() => format!("thread id '{}'", numbers(thread)),
        Options {
            cgroup: Some(path), ..
        } => format!("cgroup '{path}'"),
        Options { cpus: Some(cpus), .. } => format!("CPU(s) {}", numbers(&cpus.iter().collect::<Vec<_>>())),
        Options { all: true, .. } => "'system wide'".to_owned(),
        _ if command.is_empty() => "'system wide'".to_owned(),
        _ => format!("'{}'", command.join(" ")),
    }
}

/// Checks the options before anything is forked or opened.
fn check(options: &Options, host: &Host) -> Result<(), Failure> {
    if options.repeat > 1 && options.command.is_empty() {
        let failure = Failure::new(Exit::Usage, "there is no command to repeat");
        return Err(failure.hint("`kestrel stat -r 10 -- COMMAND` runs one ten times"));
    }
    for pid in &options.pid {
        check_process(*pid, host)?;
    }
    for tid in &options.thread {
        if !host.path(format!("/proc/{tid}")).exists() {
            let failure = Failure::new(
                Exit::Failed,
                format!("cannot count thread {tid}: there is no such thread"),
            );
            return Err(failure.hint("`ls /proc/PID/task` shows the threads of a process"));
        }
    }
    let online = online_cpus(host)?;
    if let Some(cpu) = options
        .cpus
        .iter()
        .flat_map(CpuList::iter)
        .find(|cpu| !online.contains(*cpu))
    {
        let failure = Failure::new(
            Exit::Failed,
            format!("cannot count on CPU {cpu}: it does not run"),
        );
        return Err(failure.hint("/sys/devices/system/cpu/online lists those that do"));
    }
    Ok(())
}

fn scope(options: &Options, host: &Host, command: Option<u32>) -> Result<Scope, Failure> {
    Ok(match (options, command) {
        (Options { pid, .. }, _) if !pid.is_empty() => Scope::Processes(pid.clone()),
        (Options { thread, .. }, _) if !thread.is_empty() => Scope::Threads(thread.clone()),
        (Options { cpus: Some(cpus), .. }, _) => Scope::Cpus(cpus.clone()),
        (
            Options {
                cgroup: Some(path), ..
            },
            _,
        ) => Scope::Cgroup(Cgroup::open(host, path)?),
        (Options { all: false, .. }, Some(pid)) => Scope::Command(pid),
        _ => Scope::All,
    })
}

fn split(options: &Options) -> Split {
    match options {
        Options { per_cpu: true, .. } => Split::Cpu,
        Options { per_thread: true, .. } => Split::Thread,
        Options { by: Some(text), .. } => Split::By(text.clone()),
        _ => Split::None,
    }
}

/// Counts once: until the command or the processes have ended, the time is over, or a signal asks for the end.
fn once(options: &Options, catalog: &Catalog, output: &mut Output) -> Result<Finished, Failure> {
    let live = options.live.view(!options.command.is_empty())?;
    let held = hold(&options.command)?;
    let request = CountRequest {
        events: options.events.texts(catalog)?,
        scope: scope(options, catalog.host(), held.as_ref().map(|held| held.pid()))?,
        split: split(options),
        via: Via::Auto,
    };
    // What the command used is of interest where it is what was counted, as perf has it.
    let is_command = matches!(request.scope, Scope::Command(_));
    let stat = Stat::prepare(&request, catalog)?;
    for (text, warning) in stat.warnings() {
        eprintln!("{}", style::diagnostics(std::slice::from_ref(warning), text));
    }
    // Figures of intervals say enough; a command has the terminal for itself.
    let is_shared = held.is_some() || options.interval.is_some() || options.live.is_wanted();
    let line = StatusLine::new("counting", options.duration, is_shared);
    let mut foreground = Foreground::new(options.duration)?.with_status_line(&line);
    let before = children_times();
    let mut counting = Counting::new(stat, options, live, catalog.host(), output);
    counting.begin()?;
    foreground.release(held)?;
    foreground.run(&mut counting)?;
    let Counting { mut stat, run, .. } = counting;
    let after = children_times();
    print_missed(&stat, &run)?;
    let finished = Finished {
        run,
        events: stat.events().to_vec(),
        used: is_command.then(|| (after.0 - before.0, after.1 - before.1)),
        interrupted: foreground.is_interrupted(),
        exit: foreground.exit(),
    };
    match stat.detach() {
        0 => {}
        apart => remark!(
            "{} {} masked and being detached in the background: the kernel takes its time for each",
            counted(apart as u64, "hook"),
            are(apart as u64)
        ),
    }
    Ok(finished)
}

/// Prints what was not counted, and why.
fn print_missed(stat: &Stat, run: &Run) -> Result<(), Failure> {
    for (event, hits) in stat.uncounted_hits()? {
        eprintln!(
            "{} of {event} {} counted in no row: there is no room for so many rows",
            counted(hits, "hit"),
            were(hits)
        );
    }
    let Some(session) = stat.session() else {
        return Ok(());
    };
    for left_out in session.skipped() {
        eprintln!("not counted: {}: {}", left_out.event, left_out.why);
    }
    for gap in session.module_gaps() {
        eprintln!("{gap}");
    }
    let missed = session.missed()?;
    for missed in missed.iter().filter(|it| !it.is_nothing()) {
        eprintln!("{missed}");
    }
    let hits = missed
        .iter()
        .filter_map(|missed| missed.count.as_ref().ok())
        .sum();
    let came = run.counts.iter().filter(|count| came(count));
    if let Some(uncounted) = session.uncounted()? {
        // The figures are all that it counts.
        let uncounted = Uncounted {
            unseen: false,
            ..uncounted
        };
        if uncounted.matters(hits, came.map(|count| (count.event, 0))) {
            remark!("{uncounted}");
        }
    }
    Ok(())
}

/// Rows of the counts so far.
fn so_far(stat: &Stat, layout: &Layout, now: Duration) -> Result<String, Failure> {
    let run = Run {
        counts: stat.read()?,
        elapsed: now.as_nanos() as u64,
    };
    let rows = layout.rows(&figures(stat.events(), &[run]), None);
    Ok(format!("after {:.1} s:\n{rows}\n", now.as_secs_f64()))
}

/// Whether an event came.
fn came(count: &Count) -> bool {
    matches!(&count.amount, Amount::Counted(reading) if reading.value > 0)
}

/// Counting in progress.
struct Counting<'a> {
    stat: Stat,
    run: Run,
    begun: Instant,
    watched: Vec<AwaitedTask>,
    intervals: Option<Intervals>,
    /// The counts so far, while they change.
    live: Live,
    layout: Layout,
    output: &'a mut Output,
}

/// The intervals of `-I`.
struct Intervals {
    length: Duration,
    /// When the next one ends, since the beginning.
    next: Duration,
    /// The counts at the end of the last one, and when that was.
    counts: Vec<Count>,
    at: u64,
}

/// A process or thread whose end ends the counting.
enum AwaitedTask {
    Process(Watched),
    /// A thread or process without a descriptor: any thread, or any process before Linux 5.3.
    Number(PathBuf),
}

impl AwaitedTask {
    fn has_ended(&self) -> bool {
        match self {
            Self::Process(watched) => watched.has_ended(),
            Self::Number(path) => !path.exists(),
        }
    }
}

impl<'a> Counting<'a> {
    fn new(stat: Stat, options: &Options, live: Live, host: &Host, output: &'a mut Output) -> Self {
        let numbers = options.pid.iter().chain(&options.thread);
        let watched = numbers.map(|number| match Watched::open(*number) {
            Ok(watched) => AwaitedTask::Process(watched),
            Err(_) => AwaitedTask::Number(host.path(format!("/proc/{number}"))),
        });
        let intervals = options.interval.map(|milliseconds| Intervals {
            length: Duration::from_millis(milliseconds),
            next: Duration::from_millis(milliseconds),
            counts: Vec::new(),
            at: 0,
        });
        Self {
            stat,
            run: Run {
                counts: Vec::new(),
                elapsed: 0,
            },
            begun: Instant::now(),
            watched: watched.collect(),
            intervals,
            live,
            layout: layout(options),
            output,
        }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.begun = Instant::now();
        self.stat.begin()?;
        match self.intervals {
            Some(_) => self.output.write(self.layout.interval_title()),
            None => Ok(()),
        }
    }

    /// Shows what came since the last interval.
    fn show(&mut self, counts: Vec<Count>, at: Duration) -> Result<(), Failure> {
        let Some(intervals) = &mut self.intervals else {
            return Ok(());
        };
        let at = at.as_nanos() as u64;
        let run = Run {
            counts: since(&counts, &intervals.counts),
            elapsed: at - intervals.at,
        };
        intervals.counts = counts;
        intervals.at = at;
        let runs = [run];
        let rows = self.layout.rows(&figures(self.stat.events(), &runs), Some(at));
        self.output.write(&rows)
    }
}

impl Work for Counting<'_> {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        let now = self.begun.elapsed();
        if last {
            self.live.erase()?;
            let counts = self.stat.end()?;
            self.run = Run {
                counts: counts.clone(),
                elapsed: now.as_nanos() as u64,
            };
            self.show(counts, now)?;
            return Ok(Duration::ZERO);
        }
        let Some(intervals) = &mut self.intervals else {
            let (stat, layout) = (&self.stat, &self.layout);
            self.live.show(|| so_far(stat, layout, now))?;
            return Ok(self.live.pause(LOOK));
        };
        if now >= intervals.next {
            // Those that passed unseen are part of this one.
            while intervals.next <= now {
                intervals.next += intervals.length;
            }
            let counts = self.stat.read()?;
            self.show(counts, now)?;
        }
        let next = self
            .intervals
            .as_ref()
            .map_or(LOOK, |it| it.next.saturating_sub(self.begun.elapsed()));
        Ok(next.min(LOOK))
    }

    fn has_ended(&self) -> bool {
        !self.watched.is_empty() && self.watched.iter().all(AwaitedTask::has_ended)
    }
}
