//! Performing the actions of records (`notify`, `exec`, `dump`), with a line for each: for the agent, `record` and `trace`.

use crate::exit::Failure;
use crate::output::Format;
use crate::style::bytes;
use clap::Args;
use kestrel::agent::Lost;
use kestrel::agent::dumps::{DumpOutcome, Dumps};
use kestrel::agent::run::{End, Policy, Runner, StartOutcome};
use kestrel::agent::user;
use kestrel::kernel::Host;
use kestrel::kernel::procfs::ClockPair;
use kestrel_trace::action::{Action, Effect};
use kestrel_trace::export::{Export, Json};
use kestrel_trace::print;
use kestrel_trace::print::{counted, were};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::collections::BTreeMap;
use std::time::Duration;

/// Permissions for the commands of handlers while `record` or `trace` runs.
#[derive(Args, Debug)]
pub(crate) struct Rights {
    /// The user that runs exec() commands of handlers; without it no command is run
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

impl Rights {
    /// Whether commands may run.
    pub(crate) fn may_run(&self) -> bool {
        self.user.is_some()
    }

    /// An actor with these rights.
    pub(crate) fn actor(&self, host: &Host, format: Format) -> Result<Actor, Failure> {
        let user = self.user.as_deref().map(|name| user::find(host, name));
        let policy = Policy {
            user: user.transpose()?,
            output_aside: format == Format::Json,
            ..Policy::default()
        };
        let bound =
            "more often than commands are started here, or while as many as may run at once were running";
        Ok(Actor::new(policy, None, format, bound))
    }
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionOutcome {
    Shown,
    Started,
    Dumped,
    /// No user was named, or no directory.
    Forbidden,
    /// The rate was exceeded.
    Limited,
    /// The limit of commands or dumps at once is reached: to be tried again.
    Later,
}

/// Commands that ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndedCommands {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) timed_out: u64,
    pub(crate) not_started: u64,
}

/// Performs the actions of records.
pub(crate) struct Actor {
    pub(crate) runner: Runner,
    pub(crate) dumps: Option<Dumps>,
    /// Number of times that each action was left out.
    limited: BTreeMap<String, u64>,
    /// The reason printed for these, with the options that change the limits.
    bound: &'static str,
    format: Format,
    /// From CLOCK_MONOTONIC to the date, ns.
    offset: i64,
    /// Records with an action.
    pub(crate) count: u64,
}

impl Actor {
    /// An actor that has performed nothing yet.
    pub(crate) fn new(policy: Policy, dumps: Option<Dumps>, format: Format, bound: &'static str) -> Self {
        Self {
            runner: Runner::new(policy),
            dumps,
            limited: BTreeMap::new(),
            bound,
            format,
            offset: ClockPair::now().offset(),
            count: 0,
        }
    }

    /// Performs the action of a session's record, and writes its line.
    pub(crate) fn act(
        &mut self,
        session: &str,
        action: &Action,
        record: &Record<'_>,
        out: &mut Vec<u8>,
    ) -> ActionOutcome {
        let moment = record.time_ns.saturating_add_signed(self.offset);
        let effect = action.effect(moment);
        let acted = match &effect {
            Effect::Show | Effect::Print(_) => ActionOutcome::Shown,
            Effect::Run(command) => match self.runner.start(session, command, record) {
                StartOutcome::Busy => ActionOutcome::Later,
                StartOutcome::Running => ActionOutcome::Started,
                StartOutcome::Forbidden => ActionOutcome::Forbidden,
                StartOutcome::Limited => self.count_left_out(command.clone()),
            },
            Effect::Dump(before) => {
                let dumps = self.dumps.as_mut();
                match dumps.map(|dumps| dumps.begin(session, *before, record.time_ns)) {
                    Some(DumpOutcome::Writing | DumpOutcome::Merged) => ActionOutcome::Dumped,
                    Some(DumpOutcome::Busy) => ActionOutcome::Later,
                    Some(DumpOutcome::Limited) => self.count_left_out(format!("dump({})", action.text)),
                    None => ActionOutcome::Forbidden,
                }
            }
        };
        self.count += u64::from(acted != ActionOutcome::Later);
        // What waits is written when it is done, what was left out only counted.
        if matches!(acted, ActionOutcome::Limited | ActionOutcome::Later) {
            return acted;
        }
        let printed = match effect {
            Effect::Print(text) => Some(text),
            _ => None,
        };
        match (self.format, printed) {
            (Format::Text, Some(printed)) => out.extend_from_slice(printed.as_bytes()),
            (Format::Text, None) => text(session, action, record, out),
            (Format::Json, printed) => {
                let text = printed.as_deref().unwrap_or(&action.text);
                json(session, &action.verb, text, record, out);
            }
        }
        acted
    }

    /// Counts an action as left out that [`ActionOutcome::Later`] put off and that cannot be tried again.
    pub(crate) fn leave_out(&mut self, action: &Action) {
        let _limited = self.count_left_out(action.text.clone());
    }

    fn count_left_out(&mut self, what: String) -> ActionOutcome {
        *self.limited.entry(what).or_default() += 1;
        ActionOutcome::Limited
    }

    /// Reports commands that have failed since the last call; counts all that have ended.
    pub(crate) fn report_ended(&mut self) -> EndedCommands {
        let mut count = EndedCommands::default();
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
        count
    }

    /// Waits for running commands, and reports the actions that were left out.
    pub(crate) fn finish(&mut self) {
        while self.runner.running() > 0 {
            self.report_ended();
            std::thread::sleep(EXIT_POLL);
        }
        self.report_ended();
        self.report_limited();
    }

    /// Reports the actions that were left out.
    pub(crate) fn report_limited(&self) {
        for (what, times) in &self.limited {
            eprintln!(
                "`{what}` was left out {}: {}",
                counted(*times, "time"),
                self.bound
            );
        }
    }
}

/// Interval of checks for the exit of commands that still run at the end.
const EXIT_POLL: Duration = Duration::from_millis(20);

/// Reports lost messages, and why they were lost.
pub(crate) fn lost_messages(lost: Lost) -> String {
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

/// `12.345678 main CPU 0 1234: out of memory (oom:mark_victim pid=7)`; without the session where there is but one.
fn text(session: &str, action: &Action, record: &Record<'_>, out: &mut Vec<u8>) {
    let verb = match action.verb.as_str() {
        "notify" => String::new(),
        verb => format!("{verb} "),
    };
    let session = match session {
        "" => String::new(),
        session => format!("{session} "),
    };
    let line = format!(
        "{}.{:06} {session}CPU {} {}: {verb}{} ({}",
        record.time_ns / 1_000_000_000,
        record.time_ns / 1000 % 1_000_000,
        record.cpu,
        record.tid,
        action.text,
        record.event.name,
    );
    out.extend_from_slice(line.as_bytes());
    let symbols = Symbols::default();
    for (field, value) in record.fields() {
        out.extend_from_slice(format!(" {}=", field.name).as_bytes());
        print::value(value, &symbols, out);
    }
    out.extend_from_slice(b")\n");
}

/// The record's line of JSON in an object with the session and the action.
fn json(session: &str, verb: &str, text: &str, record: &Record<'_>, out: &mut Vec<u8>) {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut event = Vec::new();
    Json::new(Symbols::default(), Processes::default()).record(record, &mut event);
    out.push(b'{');
    if !session.is_empty() {
        out.extend_from_slice(format!("\"session\":{},", quoted(session)).as_bytes());
    }
    out.extend_from_slice(format!("{}:{},\"record\":", quoted(verb), quoted(text)).as_bytes());
    out.extend_from_slice(event.trim_ascii_end());
    out.extend_from_slice(b"}\n");
}
