//! `kestrel agent`: acts on what the handlers of sessions ask for, until it is interrupted.

use super::Format;
use crate::exit::{Exit, Failure};
use crate::style::thousands;
use clap::Args;
use kestrel::agent::run::{End, Policy, Runner, Started};
use kestrel::agent::{Answer, Inbox, Message, user};
use kestrel::kernel::Host;
use kestrel::kernel::process::Interrupt;
use kestrel::session::store::Store;
use kestrel_trace::print::{self, Json, Printer};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Options of `agent`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Only this session; without it all, and those that are started later
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Whose rights the commands of exec() have; without it none is run
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// How many commands run at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,
    /// How long a command may run before it is killed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::selection::duration)]
    timeout: Duration,
    /// Starts of one command per second, in the long run
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    rate: f64,
    /// Starts of one command at once
    #[arg(long, value_name = "N", default_value_t = 5)]
    burst: u32,
    /// End when nothing waits and nothing runs
    #[arg(long)]
    once: bool,
    /// How messages are shown
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  kestrel agent                          notify(\"…\") as lines on stdout; exec(\"…\") is only told of
  kestrel agent --user ops --rate 0.1    runs commands as ops, each at most every ten seconds
  kestrel agent --once --format json     what waits now, and no more

A command gets the event in its environment (KESTREL_EVENT, KESTREL_PID, KESTREL_FIELD_<name>, …) and as a line of JSON on its standard
input; no part of the event becomes a part of the command. Without an agent, messages wait in the session, up to 64 KiB per CPU.";

/// How often it looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it looks for sessions that came, went or changed, in pauses.
const SESSIONS: u32 = 25;

/// Listens.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let user = options.user.as_deref().map(|name| user::find(&host, name));
    let policy = Policy {
        user: user.transpose()?,
        jobs: options.jobs,
        timeout: options.timeout,
        rate: options.rate,
        burst: options.burst,
    };
    let store = Store::open(&host)?;
    if let Some(name) = &options.session {
        store.session(Some(name))?;
    }
    let interrupt = Interrupt::install()?;
    let mut agent = Agent {
        runner: Runner::new(policy),
        inboxes: BTreeMap::new(),
        limited: BTreeMap::new(),
        format: options.format,
    };
    if !options.once {
        eprintln!("listening; Ctrl-C ends it");
    }
    for round in 0u32.. {
        if round.is_multiple_of(SESSIONS) {
            agent.find(&store, options.session.as_deref())?;
        }
        let acted = agent.look()?;
        agent.tell_ended();
        if interrupt.requested() || options.once && acted == 0 && agent.runner.running() == 0 {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    agent.tell_limited();
    Ok(Exit::Done)
}

struct Agent {
    runner: Runner,
    /// By the session's name: its identity and generation, and its messages.
    inboxes: BTreeMap<String, (String, u64, Inbox)>,
    /// Commands that were left out, how often.
    limited: BTreeMap<String, u64>,
    format: Format,
}

impl Agent {
    /// Opens what came, forgets what went, learns what changed.
    fn find(&mut self, store: &Store, only: Option<&str>) -> Result<(), Failure> {
        let mut names = store.names()?;
        names.retain(|name| only.is_none_or(|only| only == name));
        self.inboxes.retain(|name, _| names.contains(name));
        for name in names {
            // It may have gone since it was listed.
            let Ok(session) = store.session(Some(&name)) else {
                continue;
            };
            // Keys that a clear() in a handler hid are given back; it can wait if it fails.
            let _kept = session.maps().and_then(|mut maps| maps.sweep());
            let (uuid, generation) = (session.state().uuid.clone(), session.state().generation);
            match self.inboxes.get_mut(&name) {
                Some((known, at, _)) if *known == uuid && *at == generation => continue,
                Some((known, at, inbox)) if *known == uuid => {
                    // Tables were loaded, or the ring is another one.
                    if let Ok(now) = session.inbox() {
                        *inbox = inbox.renewed(now);
                        *at = generation;
                    }
                    continue;
                }
                _ => {}
            }
            if let Ok(inbox) = session.inbox() {
                self.inboxes.insert(name, (uuid, generation, inbox));
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<usize, Failure> {
        let Self {
            runner,
            inboxes,
            limited,
            format,
        } = self;
        let mut out = std::io::stdout().lock();
        let mut acted = 0;
        for (session, (.., inbox)) in inboxes {
            let mut act = |message: &Message, record: &Record<'_>| {
                let answer = match message {
                    Message::Notify(_) => Answer::Done,
                    Message::Exec(command) => match runner.start(session, command, record) {
                        Started::Busy => return Ok(Answer::Later),
                        Started::Running | Started::Forbidden => Answer::Done,
                        Started::Limited => {
                            *limited.entry(command.clone()).or_default() += 1;
                            return Ok(Answer::Done);
                        }
                    },
                };
                let line = match format {
                    Format::Text => text(session, message, record),
                    Format::Json => json(session, message, record),
                };
                // Nobody may be reading; the commands are run all the same.
                let _unread = out.write_all(&line).and_then(|()| out.flush());
                Ok(answer)
            };
            acted += inbox.poll(&mut act)?;
            let lost = inbox.take_lost();
            if lost > 0 {
                eprintln!(
                    "session {session}: {} messages were lost before anybody listened",
                    thousands(lost)
                );
            }
        }
        Ok(acted)
    }

    fn tell_ended(&mut self) {
        for ended in self.runner.ended() {
            match ended.how {
                End::Exited(status) if status.success() => {}
                End::Exited(status) => eprintln!("`{}`: {status}", ended.command),
                End::TimedOut => eprintln!("`{}` was killed: it ran for too long", ended.command),
                End::Failed(error) => eprintln!("`{}` could not be started: {error}", ended.command),
            }
        }
    }

    fn tell_limited(&self) {
        for (command, times) in &self.limited {
            eprintln!(
                "`{command}` was left out {} times: too often (--rate, --burst)",
                thousands(*times)
            );
        }
    }
}

fn words(message: &Message) -> (&'static str, &str) {
    match message {
        Message::Notify(text) => ("notify", text),
        Message::Exec(command) => ("exec", command),
    }
}

/// `12.345678 main CPU 0 1234: out of memory (oom:mark_victim pid=7)`
fn text(session: &str, message: &Message, record: &Record<'_>) -> Vec<u8> {
    let (verb, text) = words(message);
    let verb = if verb == "exec" { "exec " } else { "" };
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
    Json::new(Symbols::default(), Processes::default()).line(record, &mut event);
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
