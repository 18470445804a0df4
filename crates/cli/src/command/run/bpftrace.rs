//! The command under the name `bpftrace`: its usage, its version, its exit codes, its words before messages.

use super::options::Options;
use crate::exit::{Exit, Failure};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use kestrel::plan::Plan;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The version of the language that is spoken.
const LANGUAGE: &str = "0.27.0";

#[derive(Parser, Debug)]
#[command(
    name = "bpftrace",
    disable_version_flag = true,
    // The last one counts, as with getopt.
    args_override_self = true,
    help_template = USAGE,
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Print the version of the language
    #[arg(short = 'V', long)]
    version: bool,
}

const USAGE: &str = "\
USAGE:
    bpftrace [options] filename
    bpftrace [options] - <stdin input>
    bpftrace [options] -e 'program'
    bpftrace [options] filename -- --NAME=VALUE ...     parameters of the script by name

OPTIONS:
{options}
";

/// The words that ask for the version; clap wants a program beside them.
fn asks_version(words: &[OsString]) -> bool {
    let mut words = words
        .iter()
        .skip(1)
        .take_while(|word| *word != "--" && *word != "-e");
    words.any(|word| word == "-V" || word == "--version")
}

/// Runs `kestrel run` with the words that bpftrace takes.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    if asks_version(&words) {
        let _ = writeln!(
            crate::screen::out(),
            "bpftrace v{LANGUAGE} (Kestrel {})",
            env!("CARGO_PKG_VERSION")
        );
        return ExitCode::SUCCESS;
    }
    let mut options = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.options,
        Err(error) => return usage(&error),
    };
    options.as_bpftrace = true;
    if let Some(what) = contradiction(&options) {
        eprintln!("ERROR: USAGE: {what}");
        return ExitCode::FAILURE;
    }
    match super::run(&options) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            report(&failure);
            ExitCode::from(code(&failure))
        }
    }
}

/// The code that bpftrace ends with where the environment or a definition of C is wrong.
const ENVIRONMENT: u8 = 2;
/// The code that it ends with where the kernel does not load a program or attach a probe.
const NOT_ATTACHED: u8 = 255;

/// The code of a failure: 1, but where it has one of bpftrace's others or the kernel lacks something that bpftrace would find out by attaching.
fn code(failure: &Failure) -> u8 {
    match failure.exit {
        _ if failure.message.is_empty() => 0,
        Exit::Script(code) => code,
        Exit::Feature => NOT_ATTACHED,
        _ => 1,
    }
}

/// A failure of the environment or of a definition of C, with its code under bpftrace's name.
pub(super) fn of_environment(options: &Options, failure: Failure) -> Failure {
    with_code(options, ENVIRONMENT, failure)
}

/// A failure to load or attach, with its code under bpftrace's name.
pub(super) fn not_attached(options: &Options, failure: Failure) -> Failure {
    match failure.exit {
        // bpftrace finds out before it loads anything.
        Exit::Privilege => failure,
        _ => with_code(options, NOT_ATTACHED, failure),
    }
}

fn with_code(options: &Options, code: u8, failure: Failure) -> Failure {
    match options.as_bpftrace {
        true => Failure {
            exit: Exit::Script(code),
            ..failure
        },
        false => failure,
    }
}

/// Says of each probe that it is attached now, as bpftrace's `-v` does. Its own begin and end are attached to nothing.
pub(super) fn say_what_is_attached(plan: &Plan) {
    for hook in plan.hooks.iter().filter(|hook| !hook.companion) {
        for instance in &hook.instances {
            match hook.kind {
                "begin" | "end" => eprintln!("Attaching '{}' probe", hook.kind),
                "self" => {}
                _ => eprintln!("Trying to attach probe: {}", in_full(hook.kind, &instance.name)),
            }
        }
    }
}

/// The name of an event with its kind before it.
fn in_full(kind: &str, name: &str) -> String {
    match name.split_once(':') {
        Some((first, _)) if first == kind => name.to_owned(),
        _ => format!("{kind}:{name}"),
    }
}

/// Options that bpftrace does not take together. Kestrel could, but scripts written for bpftrace count on its answer.
fn contradiction(options: &Options) -> Option<&'static str> {
    if options.command.is_some() && options.pid.is_some() {
        return Some("Cannot use both -c and -p.");
    }
    if options.helper_errors > 1 {
        return Some("-kk is not an option any more: -k reports every failed helper call");
    }
    if options.helper_errors > 0 && options.no_warnings {
        return Some("use either -k or --no-warnings: -k reports failed helper calls as warnings");
    }
    let modes = [options.test, options.bench, options.mode.is_some()];
    if modes.into_iter().filter(|given| *given).count() > 1 {
        return Some("--test, --bench and --mode conflict: a run is of one mode");
    }
    None
}

/// What is wrong with an option, as getopt and bpftrace put it; `None` where clap's words stand.
fn of_option(error: &clap::Error) -> Option<String> {
    let part = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let name = part(ContextKind::InvalidArg)?;
    let name = name.split_whitespace().next().unwrap_or(name);
    match error.kind() {
        ErrorKind::UnknownArgument => Some(match name.strip_prefix("--") {
            Some(_) => format!("bpftrace: unrecognized option '{name}'"),
            None => format!("bpftrace: invalid option -- '{}'", name.trim_start_matches('-')),
        }),
        ErrorKind::InvalidValue => {
            let value = part(ContextKind::InvalidValue)?;
            if value.is_empty() {
                return Some(match name.strip_prefix("--") {
                    Some(_) => format!("bpftrace: option '{name}' requires an argument"),
                    None => format!(
                        "bpftrace: option requires an argument -- '{}'",
                        name.trim_start_matches('-')
                    ),
                });
            }
            let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) else {
                return None;
            };
            let values: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
            let values = values.join(", ");
            Some(format!(
                "ERROR: USAGE: invalid option for {name}: {value} (it must be one of {values})"
            ))
        }
        _ => None,
    }
}

/// The help that was asked for, or what is wrong with the command line above it.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() {
        let _ = crate::screen::out().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let help = <Arguments as clap::CommandFactory>::command().render_help();
    let said = of_option(error);
    match &said {
        Some(said) => eprintln!("{said}"),
        None => eprintln!("ERROR: {first}"),
    }
    match error.kind() {
        // The values that there are say more than all options.
        ErrorKind::InvalidValue if said.as_ref().is_some_and(|said| said.starts_with("ERROR")) => {}
        ErrorKind::InvalidValue if said.is_some() => eprint!("{help}"),
        ErrorKind::InvalidValue => {
            for line in text.lines().skip(1).take_while(|line| !line.trim().is_empty()) {
                eprintln!("{}", line.trim());
            }
        }
        _ => eprint!("{help}"),
    }
    ExitCode::FAILURE
}

fn report(failure: &Failure) {
    if failure.message.is_empty() {
        return;
    }
    match failure.formatted {
        true => eprintln!("{}", failure.message),
        false => eprintln!("ERROR: {}", failure.message),
    }
    if let Some(hint) = &failure.hint {
        eprintln!("HINT: {hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        let words = ["bpftrace", "-e", "begin { }"]
            .into_iter()
            .chain(line.split_whitespace());
        Arguments::try_parse_from(words).map(|arguments| arguments.options)
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for (line, said) in [
            ("-c true -p 1", Some("both -c and -p")),
            ("-kk", Some("-kk is not an option any more")),
            ("--warnings --no-warnings", Some("either -k or --no-warnings")),
            ("--test --bench", Some("conflict")),
            ("--mode test --bench", Some("conflict")),
            ("-k", None),
            ("--warnings", None),
            ("--test", None),
        ] {
            let options = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let found = contradiction(&options);
            assert_eq!(found.is_some(), said.is_some(), "{line}");
            assert!(
                found.unwrap_or_default().contains(said.unwrap_or_default()),
                "{line}"
            );
        }
    }

    #[test]
    fn the_last_of_several_options_counts() {
        let options = parsed("-c false -c true -f text -f json -p 1 -p -2 -o a -o b").unwrap();
        assert_eq!(options.command.as_deref(), Some("true"));
        assert_eq!(options.pid.as_deref(), Some("-2"));
        assert_eq!(options.format, super::super::options::OutputFormat::Json);
        let folders = parsed("-I a -I b").unwrap().include_directory;
        assert_eq!(folders.len(), 2, "these are collected");
    }

    #[test]
    fn failures_end_with_the_codes_of_bpftrace() {
        let options = |as_bpftrace| Options {
            as_bpftrace,
            ..parsed("").unwrap()
        };
        let failure = |exit| Failure::new(exit, "it failed");
        let (own, theirs) = (options(false), options(true));
        assert_eq!(code(&of_environment(&theirs, failure(Exit::Usage))), 2);
        assert_eq!(code(&not_attached(&theirs, failure(Exit::Failed))), 255);
        assert_eq!(code(&not_attached(&theirs, failure(Exit::Privilege))), 1);
        assert_eq!(code(&failure(Exit::Feature)), 255);
        assert_eq!(code(&failure(Exit::Usage)), 1);
        assert_eq!(not_attached(&own, failure(Exit::Failed)).exit, Exit::Failed);
        assert_eq!(of_environment(&own, failure(Exit::Usage)).exit, Exit::Usage);
    }

    #[test]
    fn wrong_options_are_named_as_getopt_names_them() {
        for (line, said) in [
            ("--nosuch", "bpftrace: unrecognized option '--nosuch'"),
            ("-Z", "bpftrace: invalid option -- 'Z'"),
            ("-B", "bpftrace: option requires an argument -- 'B'"),
            ("--cmd", "bpftrace: option '--cmd' requires an argument"),
            (
                "-d x",
                "ERROR: USAGE: invalid option for -d: x (it must be one of ",
            ),
            (
                "-B foo",
                "ERROR: USAGE: invalid option for -B: foo (it must be one of ",
            ),
        ] {
            let error = parsed(line).err().unwrap_or_else(|| panic!("{line} is taken"));
            let found = of_option(&error).unwrap_or_default();
            assert!(found.starts_with(said), "{line}: {found}");
        }
    }
}
