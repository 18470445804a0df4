//! The action `notify`: shows a message at once.

use super::verb::{Effect, Verb};

pub(super) static NOTIFY: Verb = Verb {
    name: "notify",
    usage: "notify(\"text\"[, args | value | name = value, …])",
    about: "show a message at once, with the event's fields or the values given; in a session the agent shows it",
    text: "a string",
    default: None,
    values: Some("give the values after it: notify(\"text\", pid, comm)"),
    carries_fields: true,
    check: |_| Ok(()),
    without_agent: None,
    effect: |_, _| Effect::Show,
};
