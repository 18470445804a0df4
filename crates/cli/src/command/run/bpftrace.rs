//! The command under the name `bpftrace`: its usage, its version, its exit codes, its words before messages.

use super::options::Options;
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The version of the language that is spoken.
const LANGUAGE: &str = "0.27.0";

#[derive(Parser, Debug)]
#[command(
    name = "bpftrace",
    disable_version_flag = true,
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
    // Kestrel runs a command and watches another process; scripts written for bpftrace count on its answer.
    if options.command.is_some() && options.pid.is_some() {
        eprintln!("ERROR: USAGE: Cannot use both -c and -p.");
        return ExitCode::FAILURE;
    }
    match super::run(&options) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            report(&failure);
            ExitCode::from(u8::from(!failure.message.is_empty()))
        }
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
    eprintln!("ERROR: {first}");
    match error.kind() {
        // The values that there are say more than all options.
        ErrorKind::InvalidValue => {
            for line in text.lines().skip(1).take_while(|line| !line.trim().is_empty()) {
                eprintln!("{}", line.trim());
            }
        }
        _ => eprint!("{help}"),
    }
    ExitCode::FAILURE
}

fn report(failure: &crate::exit::Failure) {
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
