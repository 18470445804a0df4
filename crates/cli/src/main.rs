//! The `kestrel` command: words on a terminal. What it can do is in the library; here is how it is asked and answered.
#![forbid(unsafe_code)]

/// Writes a line to standard error, as the standard library's does; but whoever reads there may have gone away, and the work goes on.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

/// The same without the end of the line.
macro_rules! eprint {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($words)*);
    }};
}

mod command;
mod exit;
mod progress;
mod selection;
mod style;

use clap::{CommandFactory, Parser};
use exit::{Exit, Failure};
use std::io::Write;
use std::process::ExitCode;

/// A kernel state tracer: probes, tracepoints, event mask tables.
#[derive(Parser, Debug)]
#[command(name = "kestrel", bin_name = "kestrel", version, disable_help_subcommand = true, after_help = after())]
struct Arguments {
    #[command(subcommand)]
    command: Option<command::Command>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel list 'sched:*'                                  what there is to trace
  kestrel trace -e syscalls:sys_enter_openat -- ls        watch one command
  kestrel record -e 'sched:*' -a --duration 5             everybody, for five seconds
  kestrel report                                          what was recorded, as tables
  kestrel print --format json                             the same, event by event
  kestrel start flight                                    an always-on flight recorder; kestrel status, kestrel stop";

fn after() -> String {
    format!("{EXAMPLES}\n\n{}", exit::CODES)
}

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
    let Some(command) = arguments.command else {
        // Nothing asked: say what there is.
        let _ = Arguments::command().print_help();
        return Exit::Done.into();
    };
    match command::run(command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            complain(&failure);
            failure.exit.into()
        }
    }
}

fn complain(failure: &Failure) {
    if failure.message.is_empty() {
        return;
    }
    let mut err = std::io::stderr().lock();
    let lead = if failure.dressed { "" } else { "kestrel: " };
    let _ = writeln!(err, "{lead}{}", failure.message);
    if let Some(hint) = &failure.hint {
        let _ = writeln!(err, "hint: {hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
