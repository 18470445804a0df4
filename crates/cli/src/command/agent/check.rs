//! `kestrel agent --check`: checks whether an agent with these options would work.

use super::session_filter::SessionFilter;
use super::{Options, log, metrics};
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::checks::{Check, print_checks};
use kestrel::agent::user::{self, User};
use kestrel::agent::{Inbox, log as logs, run};
use kestrel::kernel::Host;
use kestrel::session::pinned::PinnedSession;
use kestrel_trace::action::{Action, Effect};
use kestrel_trace::print::counted;
use std::collections::{BTreeSet, HashSet};

/// Runs the checks; no command is run, no message taken, no log written.
pub(super) fn run(options: &Options, host: &Host) -> Result<Exit, Failure> {
    let chosen = SessionFilter(options.sessions.clone());
    let mut rows = Vec::new();
    let sessions = sessions(host, &chosen, &mut rows);
    let user = options.user.as_deref().map(|name| user::find(host, name));
    let user = match user.transpose() {
        Ok(user) => user,
        Err(error) => {
            rows.push(row("user", Err(error.to_string()), "commands and files"));
            None
        }
    };
    for session in &sessions {
        rows.extend(reactions(session, user.as_ref(), options));
    }
    rows.extend(log_rows(&options.log, user.as_ref(), &sessions, host));
    if let Some(address) = metrics::address(&options.metrics) {
        let free = address.and_then(|address| {
            let bound = std::net::TcpListener::bind(address);
            bound
                .map(|_| format!("{address} is free"))
                .map_err(|error| format!("cannot listen at {address}: {error}"))
        });
        rows.push(row("metrics", free, "Prometheus"));
    }
    print_checks(&rows, options.format)?;
    let good = rows.iter().all(|row| row.passed);
    if !good && options.format == Format::Text {
        eprintln!("an agent with these options would not do all of its work: see the lines marked no");
    }
    Ok(if good { Exit::Done } else { Exit::Failed })
}

fn row(name: impl Into<String>, found: Result<String, String>, purpose: &'static str) -> Check {
    Check {
        name: name.into(),
        passed: found.is_ok(),
        finding: found.unwrap_or_else(|why| why),
        purpose,
    }
}

/// Opens the selected sessions; adds a failed check for each that cannot be opened.
fn sessions(host: &Host, chosen: &SessionFilter, rows: &mut Vec<Check>) -> Vec<PinnedSession> {
    let listed = crate::sessions::store(host).and_then(|store| Ok((store.names()?, store)));
    let (names, store) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            rows.push(row("sessions", Err(error.to_string()), "what an agent serves"));
            return Vec::new();
        }
    };
    for missing in chosen.0.iter().filter(|name| !names.contains(name)) {
        let why = format!("there is no session {missing}: `kestrel status` lists those there are");
        rows.push(row("sessions", Err(why), "what an agent serves"));
    }
    let mut open = Vec::new();
    for name in names.iter().filter(|name| chosen.is(name)) {
        match store.session(Some(name)) {
            Ok(session) => open.push(session),
            Err(error) => rows.push(row(
                format!("session {name}"),
                Err(error.to_string()),
                "what an agent serves",
            )),
        }
    }
    let found = match open.len() {
        0 => "none yet: those that are started later are found".to_owned(),
        some => format!("{some} to serve"),
    };
    rows.push(row("sessions", Ok(found), "what an agent serves"));
    open
}

/// Checks whether the actions of a session's handlers can be performed.
fn reactions(session: &PinnedSession, user: Option<&User>, options: &Options) -> Vec<Check> {
    let name = format!("session {}", session.name());
    let classes = session.info().map(|info| info.events).unwrap_or_default();
    let actions: HashSet<&Action> = classes.iter().filter_map(|class| class.action.as_ref()).collect();
    let effects: Vec<Effect> = actions.iter().map(|action| action.effect(0)).collect();
    let commands = effects.iter().filter_map(|effect| match effect {
        Effect::Run(command) => Some(command.as_str()),
        _ => None,
    });
    let commands: BTreeSet<&str> = commands.collect();
    let mut rows = Vec::new();
    let shown = |effect: &&Effect| matches!(effect, Effect::Show | Effect::Print(_));
    let notices = effects.iter().filter(shown).count();
    let dumps = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Dump(_)))
        .count();
    // Opened only to see that the agent could, also where no handler asks for anything yet.
    let found = match Inbox::open(session) {
        Err(error) => Err(error.to_string()),
        Ok(_) if actions.is_empty() => Ok("its handlers ask for nothing".to_owned()),
        Ok(_) => Ok(format!(
            "{}, {}, {}",
            counted(notices as u64, "notice"),
            counted(commands.len() as u64, "command"),
            counted(dumps as u64, "dump")
        )),
    };
    rows.push(row(&name, found, "notify, exec, dump"));
    if dumps > 0 {
        let found = match options.dumps {
            Some(_) => Ok("traces are written where --dumps says".to_owned()),
            None => Err("no trace is written: say with --dumps where".to_owned()),
        };
        rows.push(row(&name, found, "dump"));
    }
    for command in commands {
        let found = match user {
            None => Err(format!(
                "`{command}` is not run: say with --user whose rights it has"
            )),
            Some(user) => run::program(command, user)
                .and_then(|path| match run::barred(command, &path, user) {
                    Some(why) => Err(why),
                    None => Ok(path),
                })
                .map(|path| format!("{} runs `{command}`: {}", user.name, path.display()))
                .map_err(|why| format!("`{command}`: {why}")),
        };
        rows.push(row(&name, found, "exec"));
    }
    rows
}

fn log_rows(
    options: &log::LogOptions,
    user: Option<&User>,
    sessions: &[PinnedSession],
    host: &Host,
) -> Vec<Check> {
    let Some(settings) = log::settings(options, user.cloned()) else {
        return Vec::new();
    };
    let place = settings.directory.display().to_string();
    let owner = user.map_or("root", |user| &user.name);
    let found = logs::try_directory(&settings)
        .map(|()| format!("{owner} may write to {place}"))
        .map_err(|error| error.to_string());
    let mut rows = vec![row("log", found, "log files")];
    for session in sessions {
        let found =
            logs::choose(session, &settings.buffers).map(|names| format!("keeps {}", names.join(", ")));
        let free = crate::sessions::store(host).and_then(|store| store.log_lock(session.name()));
        let found = match free {
            Ok(Some(lock)) => {
                lock.release();
                found
            }
            Ok(None) => Err("another agent keeps its log".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        rows.push(row(format!("session {}", session.name()), found, "log files"));
    }
    rows
}
