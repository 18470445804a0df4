//! The command under the name `bpftrace`: its usage, its version, its exit codes, its words before messages.

use super::options::Options;
use super::verdict::code;
use crate::exit::Failure;
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
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

/// Options that bpftrace does not take together. Kestrel could, but scripts written for bpftrace count on its answer.
fn contradiction(options: &Options) -> Option<&'static str> {
    if options.command.is_some() && options.pid.is_some() {
        return Some("Cannot use both -c and -p.");
    }
    if options.helper_errors > 1 {
        return Some(
            "-kk has been deprecated. Use a single -k for runtime warnings for errors in map lookups and probe reads.",
        );
    }
    if options.helper_errors > 0 && options.no_warnings {
        return Some("use either -k or --no-warnings: -k reports failed helper calls as warnings");
    }
    match (options.mode.is_some(), options.test, options.bench) {
        (true, true, _) => Some("--test conflicts with existing --mode"),
        (true, false, true) => Some("--bench conflicts with existing --mode"),
        (false, true, true) => Some("--test and --bench conflict: a run is of one mode"),
        _ => None,
    }
}

/// Error message about an option, as getopt and bpftrace put it; `None` where clap's words stand.
fn of_option(error: &clap::Error) -> Option<String> {
    let part = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return Some("ERROR: USAGE: filename or -e 'program' required.".to_owned());
    }
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
            let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
            Some(match name {
                "-B" => "ERROR: USAGE: -B must be either 'line', 'full', or 'none'.".to_owned(),
                "-f" | "--format" => {
                    let quoted = quoted.join(", ");
                    format!("ERROR: Invalid output format \"{value}\"\nValid formats: {quoted}")
                }
                "--mode" => {
                    let (last, others) = quoted.split_last()?;
                    let others = others.join(", ");
                    format!("ERROR: USAGE: --mode can only be {others} or {last}.")
                }
                "--no-feature" => {
                    let values = values.join(",");
                    format!("ERROR: USAGE: --no-feature can only have values '{values}'.")
                }
                _ => {
                    let quoted = quoted.join(", ");
                    format!("ERROR: USAGE: invalid option for {name}: {value} (it must be one of {quoted})")
                }
            })
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
    let own_words = of_option(error);
    match &own_words {
        Some(own_words) => eprintln!("{own_words}"),
        None => eprintln!("ERROR: {first}"),
    }
    match error.kind() {
        // The values that there are say more than all options.
        ErrorKind::InvalidValue
            if own_words
                .as_ref()
                .is_some_and(|own_words| own_words.starts_with("ERROR")) => {}
        ErrorKind::InvalidValue if own_words.is_some() => eprint!("{help}"),
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
        false => match of_command(&failure.message) {
            Some(known) => eprintln!("ERROR: {known}\nHINT: {}", failure.message),
            None => eprintln!("ERROR: {}", failure.message),
        },
    }
    if let Some(hint) = &failure.hint {
        eprintln!("HINT: {hint}");
    }
}

/// bpftrace's words for a command that cannot be run.
fn of_command(message: &str) -> Option<String> {
    let (command, _) = message.strip_prefix("cannot run `")?.split_once('`')?;
    Some(format!(
        "Failed to fork child: Path '{command}' does not exist or is not executable"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_cannot_be_run_are_refused_in_bpftraces_words() {
        let known = of_command("cannot run `./nosuch`: No such file or directory (os error 2)");
        let said = "Failed to fork child: Path './nosuch' does not exist or is not executable";
        assert_eq!(known.as_deref(), Some(said));
        assert_eq!(of_command("-c names no command"), None);
    }

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        let words = ["bpftrace", "-e", "begin { }"]
            .into_iter()
            .chain(line.split_whitespace());
        Arguments::try_parse_from(words).map(|arguments| arguments.options)
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for (line, printed) in [
            ("-c true -p 1", Some("both -c and -p")),
            ("-kk", Some("-kk has been deprecated")),
            ("--warnings --no-warnings", Some("either -k or --no-warnings")),
            ("--test --bench", Some("conflict")),
            ("--mode test --bench", Some("conflict")),
            ("-k", None),
            ("--warnings", None),
            ("--test", None),
        ] {
            let options = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let found = contradiction(&options);
            assert_eq!(found.is_some(), printed.is_some(), "{line}");
            assert!(
                found.unwrap_or_default().contains(printed.unwrap_or_default()),
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
    fn wrong_options_are_named_as_getopt_names_them() {
        for (line, printed) in [
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
                "ERROR: USAGE: -B must be either 'line', 'full', or 'none'.",
            ),
            (
                "-f foo",
                "ERROR: Invalid output format \"foo\"\nValid formats: 'text', 'json'",
            ),
            (
                "--mode foo",
                "ERROR: USAGE: --mode can only be 'codegen', 'bench', 'test' or 'format'.",
            ),
            (
                "--no-feature foo",
                "ERROR: USAGE: --no-feature can only have values 'kprobe_multi,kprobe_session,uprobe_multi'.",
            ),
        ] {
            let error = parsed(line).err().unwrap_or_else(|| panic!("{line} is taken"));
            let found = of_option(&error).unwrap_or_default();
            assert!(found.starts_with(printed), "{line}: {found}");
        }
        for line in [&["bpftrace"][..], &["bpftrace", "-q", "--"]] {
            let error = Arguments::try_parse_from(line).err().unwrap();
            let wanted = "ERROR: USAGE: filename or -e 'program' required.";
            assert_eq!(of_option(&error).as_deref(), Some(wanted));
        }
    }
}
