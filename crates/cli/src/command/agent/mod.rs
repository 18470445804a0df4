//! `kestrel agent`: acts on what the handlers of sessions ask for, until it is interrupted.

mod check;
mod log;
mod metrics;

use super::Format;
use crate::exit::{Exit, Failure};
use crate::style::bytes;
use clap::Args;
use kestrel::agent::dumps::{self, Begun, Dumps};
use kestrel::agent::metrics::Activity;
use kestrel::agent::run::{End, Policy, Runner, Started};
use kestrel::agent::{Answer, Inbox, Lost, Message, dump_time, user};
use kestrel::kernel::Host;
use kestrel::kernel::process::Interrupt;
use kestrel::session::store::Store;
use kestrel_trace::export::{Export, Json};
use kestrel_trace::print;
use kestrel_trace::print::{counted, were};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `agent`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Serve only this session (may be repeated) [default: all, also those that are started later]
    #[arg(long = "session", value_name = "NAME")]
    sessions: Vec<String>,
    /// The user that runs exec() commands and owns the files of --log; without it no command is run
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Number of exec() commands that run at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// Kill a command that runs longer than this
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::selection::duration)]
    timeout: Duration,
    /// Starts of one command per second, on average
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = rate)]
    rate: f64,
    /// Starts of one command in a burst
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    burst: u32,
    /// Write the traces of dump() below this directory, as the user that runs the agent; without it none is written
    #[arg(long, value_name = "DIR")]
    dumps: Option<PathBuf>,
    /// Number of dump() traces kept per session
    #[arg(long, value_name = "N", default_value_t = 10, requires = "dumps")]
    keep_dumps: usize,
    #[command(flatten)]
    log: log::LogOptions,
    #[command(flatten)]
    metrics: metrics::MetricsOptions,
    /// Exit when no message is waiting and no command is running
    #[arg(long)]
    once: bool,
    /// Check whether an agent with these options would work, and exit
    #[arg(long)]
    check: bool,
    /// How messages are shown
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  kestrel agent                          notify(\"…\") as lines on stdout; exec(\"…\") is reported, not run
  kestrel agent --user ops --rate 0.1    runs commands as ops, each at most every ten seconds
  kestrel agent --dumps /var/lib/kestrel a trace for each dump() of a handler, the newest ten of each session
  kestrel agent --once --format json     the messages that are waiting now
  kestrel agent --log /var/log/kestrel --rotate-size 64M --rotate-time 1h --keep 48
                                         records of stream buffers, in traces for babeltrace2 and `kestrel print`
  kestrel agent --metrics 127.0.0.1:9464 --run-times
                                         counts and costs of sessions for Prometheus, at http://127.0.0.1:9464/metrics
  kestrel agent --check --user ops --log /var/log/kestrel
                                         check that all of this would work

A command gets the event in its environment (KESTREL_EVENT, KESTREL_PID, KESTREL_FIELD_<name>, …) and as a line of JSON on its standard
input; no part of the event becomes part of the command line. Its output goes to the agent's output; with --format json its standard
output goes to the agent's standard error, so that standard output is JSON alone. Without an agent, messages wait in the session, up to 64 KiB per CPU.

Log files are traces, DIR/SESSION/NUMBER-TIME, of buffers with `mode = stream`; the one being written is hidden (.NUMBER-TIME.new) and can be
read, too. The agent may be killed at any time: the next one goes on where it stopped, and each record is in one file, once.

Metrics can be read by every user of this machine.";

/// How often it looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it looks for sessions that came, went or changed, in pauses.
const SESSIONS: u32 = 25;

/// How often something may happen in a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    let sound = rate.filter(|rate| rate.is_finite() && *rate >= 0.0);
    sound.ok_or_else(|| format!("`{text}` is no number of starts per second: 0.1, 1, 20"))
}

/// Listens.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    if options.check {
        return check::run(options, &host);
    }
    let user = options.user.as_deref().map(|name| user::find(&host, name));
    let user = user.transpose()?;
    let policy = Policy {
        user: user.clone(),
        jobs: options.jobs as usize,
        timeout: options.timeout,
        rate: options.rate,
        burst: options.burst,
        output_aside: options.format == Format::Json,
    };
    let store = crate::sessions::store(&host)?;
    for name in &options.sessions {
        store.session(Some(name))?;
    }
    let meant = Meant(options.sessions.clone());
    let interrupt = Interrupt::install()?;
    let dumps = options.dumps.as_ref().map(|directory| {
        Dumps::new(dumps::Policy {
            directory: directory.clone(),
            keep: options.keep_dumps,
            rate: options.rate,
            burst: options.burst,
        })
    });
    let mut agent = Agent {
        dumps: dumps.transpose()?,
        runner: Runner::new(policy),
        inboxes: BTreeMap::new(),
        limited: BTreeMap::new(),
        activity: Activity::default(),
        format: options.format,
    };
    let logs = log::Keeper::begin(&options.log, user, &host, &meant, options.once)?;
    let metrics = metrics::Metrics::begin(&options.metrics, &host, &meant)?;
    if !options.once {
        eprintln!("listening; Ctrl-C ends it");
    }
    for round in 0u32.. {
        if round.is_multiple_of(SESSIONS) {
            agent.find(&store, &meant)?;
        }
        let acted = agent.look()?;
        agent.tell_ended();
        if let Some(metrics) = &metrics {
            agent.activity.commands.running = agent.runner.running() as u64;
            agent.activity.logs = logs.as_ref().map(log::Keeper::progress).unwrap_or_default();
            metrics.show(&agent.activity);
        }
        let idle = acted == 0 && agent.runner.running() == 0 && agent.waiting() == 0 && !agent.is_dumping();
        if interrupt.requested() || options.once && idle {
            break;
        }
        // In a flood the ring is emptied as fast as it can be.
        if acted == 0 {
            std::thread::sleep(PAUSE);
        }
    }
    agent.tell_limited();
    logs.map_or(Ok(Exit::Done), log::Keeper::end)
}

/// Which sessions are meant: those named, or all.
#[derive(Clone, Debug)]
struct Meant(Vec<String>);

impl Meant {
    fn is(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|meant| meant == name)
    }
}

struct Agent {
    runner: Runner,
    dumps: Option<Dumps>,
    /// By the session's name: its identity and generation, and its messages.
    inboxes: BTreeMap<String, (String, u64, Inbox)>,
    /// Commands that were left out, how often.
    limited: BTreeMap<String, u64>,
    activity: Activity,
    format: Format,
}

impl Agent {
    /// Opens what came, forgets what went, learns what changed.
    fn find(&mut self, store: &Store, meant: &Meant) -> Result<(), Failure> {
        let mut names = store.names()?;
        names.retain(|name| meant.is(name));
        self.inboxes.retain(|name, _| names.contains(name));
        let inboxes = &self.inboxes;
        self.runner.forget_but(|name| inboxes.contains_key(name));
        for name in names {
            // It may have gone since it was listed.
            let Ok(session) = store.session(Some(&name)) else {
                continue;
            };
            // Clocks are attached to CPUs that have come; who changes the session just now does that, too.
            if session.unattended_cpus().is_ok_and(|missing| !missing.is_empty()) {
                let _attached = store.change(Some(&name));
            }
            // Keys that a clear() in a handler hid are given back; it can wait if it fails.
            let _kept = session.maps().and_then(|mut maps| maps.sweep());
            let (uuid, generation) = (session.state().uuid.clone(), session.state().generation);
            match self.inboxes.get_mut(&name) {
                Some((known, at, _)) if *known == uuid && *at == generation => continue,
                Some((known, at, inbox)) if *known == uuid => {
                    // Tables were loaded, or the ring is another one.
                    if let Ok(now) = Inbox::open(&session) {
                        *inbox = inbox.renewed(now);
                        *at = generation;
                    }
                    continue;
                }
                _ => {}
            }
            if let Ok(inbox) = Inbox::open(&session) {
                self.inboxes.insert(name, (uuid, generation, inbox));
            }
        }
        Ok(())
    }

    fn is_dumping(&self) -> bool {
        self.dumps.as_ref().is_some_and(Dumps::is_writing)
    }

    /// Messages that wait for their turn.
    fn waiting(&self) -> usize {
        self.inboxes.values().map(|(.., inbox)| inbox.waiting()).sum()
    }

    fn look(&mut self) -> Result<usize, Failure> {
        let Self {
            runner,
            dumps,
            inboxes,
            limited,
            activity,
            format,
        } = self;
        let mut out = crate::screen::out();
        let mut acted = 0;
        for (session, (.., inbox)) in inboxes {
            let count = activity.messages.entry(session.clone()).or_default();
            let mut act = |message: &Message, record: &Record<'_>| {
                match message {
                    Message::Notify(_) => count.told += 1,
                    Message::Dump(time) => {
                        let begun = match (dumps.as_mut(), dump_time(time)) {
                            (Some(dumps), Ok(before)) => Some(dumps.begin(session, before, record.time_ns)),
                            _ => None,
                        };
                        match begun {
                            Some(Begun::Writing) => count.dumped += 1,
                            Some(Begun::Busy) => return Ok(Answer::Later),
                            Some(Begun::Limited) => {
                                count.limited += 1;
                                *limited.entry(format!("dump({time})")).or_default() += 1;
                                return Ok(Answer::Done);
                            }
                            None => count.forbidden += 1,
                        }
                    }
                    Message::Exec(command) => match runner.start(session, command, record) {
                        Started::Busy => return Ok(Answer::Later),
                        Started::Running => count.started += 1,
                        Started::Forbidden => count.forbidden += 1,
                        Started::Limited => {
                            count.limited += 1;
                            *limited.entry(command.clone()).or_default() += 1;
                            return Ok(Answer::Done);
                        }
                    },
                }
                let line = match format {
                    Format::Text => text(session, message, record),
                    Format::Json => json(session, message, record),
                };
                // Nobody may be reading; the commands are run all the same.
                let _unread = out.write_all(&line).and_then(|()| out.flush());
                Ok(Answer::Done)
            };
            acted += inbox.poll(&mut act)?;
            if let Some(lost) = inbox.take_lost() {
                count.lost += lost.count;
                eprintln!("session {session}: {}", tell_lost(lost));
            }
        }
        Ok(acted)
    }

    fn tell_ended(&mut self) {
        if let Some(ended) = self.dumps.as_mut().and_then(Dumps::ended) {
            match ended.outcome {
                Ok(dumped) => eprintln!(
                    "session {}: {} in {}",
                    ended.session,
                    counted(dumped.summary.recorded(), "event"),
                    dumped.path.display()
                ),
                Err(error) => eprintln!("session {}: no trace was written: {error}", ended.session),
            }
        }
        let count = &mut self.activity.commands;
        for ended in self.runner.ended() {
            match ended.how {
                End::Exited(status) if status.success() => count.succeeded += 1,
                End::Exited(status) => {
                    count.failed += 1;
                    eprintln!("`{}`: {status}", ended.command);
                }
                End::TimedOut => {
                    count.timed_out += 1;
                    eprintln!("`{}` was killed: it ran for too long", ended.command);
                }
                End::Failed(error) => {
                    count.not_started += 1;
                    eprintln!("`{}` could not be started: {error}", ended.command);
                }
            }
        }
    }

    fn tell_limited(&self) {
        for (command, times) in &self.limited {
            eprintln!(
                "`{command}` was left out {}: too often (--rate, --burst)",
                counted(*times, "time")
            );
        }
    }
}

/// Why messages were lost.
fn tell_lost(lost: Lost) -> String {
    let why = match lost.before {
        true => "before this agent listened",
        false => "they came faster than they were taken",
    };
    format!(
        "{} {} lost because the ring was full, which holds {} per CPU: {why}",
        counted(lost.count, "message"),
        were(lost.count),
        bytes(lost.holds)
    )
}

fn words(message: &Message) -> (&'static str, &str) {
    match message {
        Message::Notify(text) => ("notify", text),
        Message::Exec(command) => ("exec", command),
        Message::Dump(time) => ("dump", time),
    }
}

/// `12.345678 main CPU 0 1234: out of memory (oom:mark_victim pid=7)`
fn text(session: &str, message: &Message, record: &Record<'_>) -> Vec<u8> {
    let (verb, text) = words(message);
    let verb = match verb {
        "notify" => String::new(),
        verb => format!("{verb} "),
    };
    let mut line = format!(
        "{}.{:06} {session} CPU {} {}: {verb}{text} ({}",
        record.time_ns / 1_000_000_000,
        record.time_ns / 1000 % 1_000_000,
        record.cpu,
        record.tid,
        record.event.name,
    )
    .into_bytes();
    let symbols = Symbols::default();
    for (field, value) in record.fields() {
        line.extend_from_slice(format!(" {}=", field.name).as_bytes());
        print::value(value, &symbols, &mut line);
    }
    line.extend_from_slice(b")\n");
    line
}

/// The record's line of JSON in an object with the session and what is asked.
fn json(session: &str, message: &Message, record: &Record<'_>) -> Vec<u8> {
    let (verb, text) = words(message);
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut event = Vec::new();
    Json::new(Symbols::default(), Processes::default()).record(record, &mut event);
    let mut line = format!(
        "{{\"session\":{},\"{verb}\":{},\"record\":",
        quoted(session),
        quoted(text)
    )
    .into_bytes();
    line.extend_from_slice(event.trim_ascii_end());
    line.extend_from_slice(b"}\n");
    line
}
