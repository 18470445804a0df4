//! The `kestrel` command: words on a terminal. What it can do is in the library; here is how it is asked and answered.
#![forbid(unsafe_code)]

mod command;
mod exit;
mod selection;
mod style;

use clap::Parser;
use exit::{Exit, Failure};
use std::process::ExitCode;

/// A kernel state tracer: probes, tracepoints, event mask tables.
#[derive(Parser, Debug)]
#[command(name = "kestrel", version, disable_help_subcommand = true, after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: command::Command,
}

const AFTER: &str = "Exit codes: 0 done; 1 nothing found, the traced command failed, or a file could not be read or written; \
2 wrong usage; 3 a privilege is missing; 4 the kernel lacks a feature; 5 a fault of Kestrel's own.";

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Done.into()
            };
        }
    };
    match command::run(arguments.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            complain(&failure);
            failure.exit.into()
        }
    }
}

/// A reader that went away (`| head`) is no failure.
fn is_broken_pipe(failure: &Failure) -> bool {
    failure.message.contains("Broken pipe")
}

fn complain(failure: &Failure) {
    if is_broken_pipe(failure) {
        std::process::exit(0);
    }
    if failure.message.contains("error:") {
        eprintln!("{}", failure.message);
    } else {
        eprintln!("kestrel: {}", failure.message);
    }
    if let Some(hint) = &failure.hint {
        eprintln!("hint: {hint}");
    }
}
