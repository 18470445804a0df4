//! `kestrel agent`: performs the actions of handlers of persistent sessions until it is interrupted.

mod check;
mod log;
mod metrics;
mod session_filter;

use crate::actor::{ActionOutcome, Actor, lost_messages};
use crate::exit::{Exit, Failure};
use crate::output::Format;
use clap::Args;
use kestrel::agent::dumps::{self, Dumps};
use kestrel::agent::metrics::Activity;
use kestrel::agent::run::Policy;
use kestrel::agent::{Answer, Inbox, user};
use kestrel::kernel::process::Interrupt;
use kestrel::kernel::{Host, readable};
use kestrel::session::store::Store;
use kestrel_trace::action::Action;
use kestrel_trace::print::counted;
use kestrel_trace::record::Record;
use session_filter::SessionFilter;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::arguments::duration)]
    timeout: Duration,
    /// Maximum number of starts of one command per second, on average
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = rate)]
    rate: f64,
    /// Maximum number of starts of one command in a burst
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
    /// Output format of each message
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

/// The pause between two polls of the message buffers when they are empty, while commands run, messages wait or a session has no bell.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The pause otherwise: the next message ends it.
const PAUSE_WITH_BELL: Duration = Duration::from_millis(250);
/// The time between two searches for sessions that were started, stopped or changed.
const SESSIONS: Duration = Duration::from_millis(500);

/// Parses a rate per second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    let sound = rate.filter(|rate| rate.is_finite() && *rate >= 0.0);
    sound.ok_or_else(|| format!("`{text}` is no number of starts per second: 0.1, 1, 20"))
}

/// Runs the agent.
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
    let chosen = SessionFilter(options.sessions.clone());
    let interrupt = Interrupt::install()?;
    let dumps = options.dumps.as_ref().map(|directory| {
        let policy = dumps::Policy {
            directory: directory.clone(),
            keep: options.keep_dumps,
            rate: options.rate,
            burst: options.burst,
        };
        Dumps::new(policy, &host)
    });
    let mut agent = Agent {
        actor: Actor::new(
            policy,
            dumps.transpose()?,
            options.format,
            "too often (--rate, --burst)",
        ),
        inboxes: BTreeMap::new(),
        activity: Activity::default(),
    };
    let logs = log::Keeper::begin(&options.log, user, &host, &chosen, options.once)?;
    let metrics = metrics::Metrics::begin(&options.metrics, &host, &chosen)?;
    if !options.once {
        eprintln!("listening; Ctrl-C ends it");
    }
    let mut looked: Option<Instant> = None;
    loop {
        if looked.is_none_or(|at| at.elapsed() >= SESSIONS) {
            agent.update_sessions(&store, &chosen)?;
            looked = Some(Instant::now());
        }
        let acted = agent.poll()?;
        agent.report_ended();
        if let Some(metrics) = &metrics {
            agent.activity.commands.running = agent.actor.runner.running() as u64;
            agent.activity.logs = logs.as_ref().map(log::Keeper::progress).unwrap_or_default();
            metrics.show(&agent.activity);
        }
        let idle =
            acted == 0 && agent.actor.runner.running() == 0 && agent.waiting() == 0 && !agent.is_dumping();
        if interrupt.requested() || options.once && idle {
            break;
        }
        // In a flood the ring is emptied as fast as it can be.
        match agent.bells() {
            Some(bells) if idle => {
                readable::wait(&bells, PAUSE_WITH_BELL);
            }
            _ if acted == 0 => std::thread::sleep(POLL_INTERVAL),
            _ => {}
        }
    }
    agent.actor.report_limited();
    logs.map_or(Ok(Exit::Done), log::Keeper::end)
}

struct Agent {
    actor: Actor,
    /// By the session's name: its identity and generation, and its messages.
    inboxes: BTreeMap<String, (String, u64, Inbox)>,
    activity: Activity,
}

impl Agent {
    /// Opens the messages of new sessions, drops those of stopped ones, reopens those of changed ones.
    fn update_sessions(&mut self, store: &Store, chosen: &SessionFilter) -> Result<(), Failure> {
        let mut names = store.names()?;
        names.retain(|name| chosen.is(name));
        self.inboxes.retain(|name, _| names.contains(name));
        let inboxes = &self.inboxes;
        self.actor.runner.forget_but(|name| inboxes.contains_key(name));
        for name in names {
            // It may have gone since it was listed.
            let Ok(session) = store.session(Some(&name)) else {
                continue;
            };
            // Clocks are attached to CPUs that have come; a command that changes the session just now does that, too.
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

    /// Descriptors to sleep on until a message comes; `None` where a session has no bell.
    fn bells(&self) -> Option<Vec<BorrowedFd<'_>>> {
        self.inboxes.values().map(|(.., inbox)| inbox.bell()).collect()
    }

    fn is_dumping(&self) -> bool {
        self.actor.dumps.as_ref().is_some_and(Dumps::is_writing)
    }

    /// The number of messages whose action was put off.
    fn waiting(&self) -> usize {
        self.inboxes.values().map(|(.., inbox)| inbox.waiting()).sum()
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        let Self {
            actor,
            inboxes,
            activity,
        } = self;
        let mut out = crate::screen::out();
        let mut acted = 0;
        for (session, (.., inbox)) in inboxes {
            let count = activity.messages.entry(session.clone()).or_default();
            let mut act = |action: &Action, record: &Record<'_>| {
                let mut line = Vec::new();
                match actor.act(session, action, record, &mut line) {
                    ActionOutcome::Later => return Ok(Answer::Later),
                    ActionOutcome::Shown => count.shown += 1,
                    ActionOutcome::Started => count.started += 1,
                    ActionOutcome::Dumped => count.dumped += 1,
                    ActionOutcome::Forbidden => count.forbidden += 1,
                    ActionOutcome::Limited => count.limited += 1,
                }
                // A closed standard output does not stop the commands.
                let _unread = out.write_all(&line).and_then(|()| out.flush());
                Ok(Answer::Done)
            };
            acted += inbox.poll(&mut act)?;
            if let Some(lost) = inbox.take_lost() {
                count.lost += lost.count;
                eprintln!("session {session}: {}", lost_messages(lost));
            }
        }
        Ok(acted)
    }

    fn report_ended(&mut self) {
        if let Some(ended) = self.actor.dumps.as_mut().and_then(Dumps::ended) {
            match ended.outcome {
                Ok(dumped) => eprintln!(
                    "session {}: {} in {}",
                    ended.session,
                    counted(dumped.summary.recorded(), "event"),
                    dumped.path.display()
                ),
                Err(error) => eprintln!("session {}: no trace was written: {error}", ended.session),
            }
            for (_, error) in ended.not_removed {
                eprintln!("session {}: {error}; later dumps try again", ended.session);
            }
        }
        let ended = self.actor.report_ended();
        let count = &mut self.activity.commands;
        count.succeeded += ended.succeeded;
        count.failed += ended.failed;
        count.timed_out += ended.timed_out;
        count.not_started += ended.not_started;
    }
}
