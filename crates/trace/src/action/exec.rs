//! The action `exec`: runs a command.

use super::verb::{Effect, Verb};

pub(super) static EXEC: Verb = Verb {
    name: "exec",
    usage: "exec(\"command\"[, args | value | name = value, …])",
    about: "run a command, with the fields in its environment and as JSON on its standard input, as the user of --user",
    text: "a command",
    default: None,
    values: Some(
        "give the values after it: exec(\"command\", pid, comm); the command finds them in its environment and as JSON on its standard input",
    ),
    carries_fields: true,
    check: |_| Ok(()),
    without_agent: None,
    effect: |command, _| Effect::Run(command.to_owned()),
};
