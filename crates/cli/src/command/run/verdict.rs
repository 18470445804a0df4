//! How a run ends under the name `bpftrace`, and what `-v` says there of attaching.

use super::options::Options;
use crate::exit::{Exit, Failure};
use kestrel::plan::Plan;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The code that bpftrace ends with where the environment or a definition of C is wrong.
const ENVIRONMENT: u8 = 2;
/// The code that it ends with where the kernel does not load a program or attach a probe.
const NOT_ATTACHED: u8 = 255;

/// The code of a failure under bpftrace's name: 1, but where it has one of bpftrace's others or the kernel lacks something that bpftrace would find out by attaching.
pub(super) fn code(failure: &Failure) -> u8 {
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
pub(super) fn announce_attached(plan: &Plan) {
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

/// Says how the command of `-c` ended, as bpftrace's `-v` does.
pub(super) fn say_how_the_command_ended(status: ExitStatus) {
    match (status.code(), status.signal()) {
        (Some(code), _) => eprintln!("Child exited with code: {code}"),
        (None, Some(signal)) => eprintln!("Child terminated by signal: {signal}"),
        (None, None) => {}
    }
}

/// The name of an event with its kind before it.
fn in_full(kind: &str, name: &str) -> String {
    match name.split_once(':') {
        Some((first, _)) if first == kind => name.to_owned(),
        _ => format!("{kind}:{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_end_with_the_codes_of_bpftrace() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let options = |as_bpftrace| Options {
            as_bpftrace,
            ..<Line as clap::Parser>::parse_from(["run", "-e", "begin { }"]).options
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
}
