//! The `kestrel` command: parses the command line, calls the library, prints results and failures.
#![forbid(unsafe_code)]

/// Writes a line to standard error through [`screen`]; unlike the standard library's macro it ignores a closed stderr.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(crate::screen::err(), $($words)*);
    }};
}

/// Writes a line as [`eprintln!`] does, unless `--quiet` asks for less: what is right, and hints. Errors and losses are always written.
macro_rules! remark {
    ($($words:tt)*) => {
        if !crate::screen::is_quiet() {
            eprintln!($($words)*);
        }
    };
}

/// Writes to standard error as [`eprintln!`] does, without a newline.
macro_rules! eprint {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(crate::screen::err(), $($words)*);
    }};
}

mod actor;
mod arguments;
mod call_graph;
mod calls;
mod command;
mod events;
mod exit;
mod explore;
mod filter;
mod foreground;
mod habits;
mod live;
mod opening;
mod output;
mod progress;
mod recording;
mod replaying;
mod sampling;
mod screen;
mod selection;
mod sessions;
mod stacks;
mod status_line;
mod style;
mod switching;
mod targets;
mod terminal;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use exit::Exit;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

/// A kernel tracer: tracepoints, probes and bpftrace programs, recorded or always on.
#[derive(Parser, Debug)]
#[command(name = "kestrel", bin_name = "kestrel", version, disable_help_subcommand = true, after_help = help_footer())]
struct Arguments {
    #[command(subcommand)]
    command: Option<command::Command>,
    /// How long to wait for another command that is changing the same session [default: 60s]
    #[arg(long, value_name = "TIME", global = true, value_parser = arguments::duration, hide_short_help = true)]
    wait: Option<std::time::Duration>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel list 'sched:*'                                  the events that can be traced
  kestrel trace -e syscalls:sys_enter_openat -- ls        watch one command
  kestrel record -e 'sched:*' -a --duration 5             all processes, for five seconds
  kestrel report                                          the recorded trace as tables
  kestrel print --format json                             the same trace, event by event
  kestrel start flight                                    an always-on flight recorder; kestrel status, kestrel stop";

fn help_footer() -> String {
    format!("{EXAMPLES}\n\n{}\n\n{}", exit::CODES, exit::OTHERS)
}

/// The definition of the command line. `--wait` is global, so that it may stand anywhere; commands that have no session take it, as scripts give it to all, and
/// do not show it.
fn definition() -> clap::Command {
    let whole = Arguments::command();
    let wait = whole.get_arguments().find(|argument| argument.get_id() == "wait");
    let Some(wait) = wait.cloned().map(|wait| wait.hide(true)) else {
        return whole;
    };
    // All at once: changed one by one, these would come last in manual pages.
    whole.mut_subcommands(
        |command| match command::WITHOUT_SESSIONS.contains(&command.get_name()) {
            true => command.arg(wait.clone()),
            false => command,
        },
    )
}

/// Parses a command line.
fn parse(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut matches = definition().try_get_matches_from(words)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut definition()))
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if is_bpftrace(&words) {
        return command::as_bpftrace(words);
    }
    let arguments = match parse(spelled(words.clone())) {
        Ok(arguments) => arguments,
        Err(error) => {
            return print_usage(error, habits::answer(&words, false));
        }
    };
    if let Some(time) = arguments.wait {
        sessions::set_lock_timeout(time);
    }
    let Some(command) = arguments.command else {
        // Nothing asked: say what there is.
        let _ = definition().print_help();
        return Exit::Done.into();
    };
    match command::run(command, definition) {
        Ok(exit) => exit.into(),
        Err(mut failure) => {
            if failure.exit == Exit::Usage || failure.exit == Exit::Failed {
                let answer = habits::of_named_probe(&words).or_else(|| habits::answer(&words, true));
                failure.hint = answer.or(failure.hint);
            }
            failure.report();
            failure.exit.into()
        }
    }
}

/// A command line as it is meant: `kestrel help COMMAND` is `kestrel COMMAND --help`.
fn spelled(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Whether this is called by the name `bpftrace`.
fn is_bpftrace(words: &[OsString]) -> bool {
    let name = words.first().map(std::path::Path::new);
    name.and_then(std::path::Path::file_name)
        .is_some_and(|name| name == "bpftrace")
}

/// Prints what is wrong with the command line, or the help that was asked for: escaped, as file names may be in it.
fn print_usage(mut error: clap::Error, habit: Option<String>) -> ExitCode {
    // clap suggests to write the word behind `--`, or a command with a similar name: neither is what a user of perf or trace-cmd means.
    error.remove(ContextKind::Suggested);
    remove_far_suggestion(&mut error);
    if habit.is_some() {
        let similar = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
        for kind in similar {
            error.remove(kind);
        }
    }
    let text = error.render();
    let wrong = error.use_stderr();
    let colours = style::colour(match wrong {
        true => std::io::stderr().is_terminal(),
        false => std::io::stdout().is_terminal(),
    });
    let text = match colours {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    match wrong {
        true => {
            let _ = screen::err().write_all(text.as_bytes());
            if let Some(answer) = habit {
                eprintln!("hint: {answer}");
                return Exit::Usage.into();
            }
            if matches!(
                error.kind(),
                ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
            ) && is_handler_control()
            {
                eprintln!(
                    "hint: the handler comes first, then `reset` or `set NAME=VALUE`; a session is named with --session NAME"
                );
            }
            Exit::Usage.into()
        }
        false => {
            let _ = screen::out().write_all(text.as_bytes());
            Exit::Done.into()
        }
    }
}

/// Removes the option that clap holds for similar where it is another word (`--bench` for `--nosuch`).
fn remove_far_suggestion(error: &mut clap::Error) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.trim_start_matches('-').to_owned()),
        _ => None,
    };
    let (typed, similar) = (text(ContextKind::InvalidArg), text(ContextKind::SuggestedArg));
    if let (Some(typed), Some(similar)) = (typed, similar)
        && kestrel::language::nearest(&typed, [similar.as_str()]).is_empty()
    {
        error.remove(ContextKind::SuggestedArg);
    }
}

/// Whether the command line names `kestrel handler control`, whatever is wrong with the rest of it.
fn is_handler_control() -> bool {
    let parsed = Arguments::command().ignore_errors(true).try_get_matches();
    let handler = parsed
        .as_ref()
        .ok()
        .and_then(|all| all.subcommand_matches("handler"));
    handler.is_some_and(|handler| handler.subcommand_matches("control").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        definition().debug_assert();
    }

    #[test]
    fn only_near_options_are_suggested() {
        for (typed, suggested) in [("--nosuch", false), ("--formt", true), ("--dry-rn", true)] {
            let words = ["kestrel", "run", "-e", "begin { }", typed].map(OsString::from);
            let mut error = parse(words.to_vec()).err().unwrap();
            remove_far_suggestion(&mut error);
            let found = error.get(ContextKind::SuggestedArg);
            assert_eq!(found.is_some(), suggested, "{typed}: {found:?}");
        }
    }

    #[test]
    fn commands_without_sessions_take_wait_and_do_not_show_it() {
        for (command, shown) in [
            ("print", false),
            ("doctor", false),
            ("status", true),
            ("trace", true),
        ] {
            let words = ["kestrel", command, "--help"].map(OsString::from).to_vec();
            let help = match parse(words) {
                Ok(_) => String::new(),
                Err(help) => help.to_string(),
            };
            assert_eq!(help.contains("--wait"), shown, "{command}: {help}");
            let words = ["kestrel", command, "--wait", "5s"].map(OsString::from).to_vec();
            let wait = parse(words).map(|arguments| arguments.wait);
            assert_eq!(
                wait.ok().flatten(),
                Some(std::time::Duration::from_secs(5)),
                "{command}"
            );
        }
    }
}
