//! The row of a verb: its name, its arguments and its effect.

use std::time::Duration;

/// A request of a handler to user space, as a row of the table: its name, arguments and text.
#[derive(Debug)]
pub struct Verb {
    /// How it is called in handlers.
    pub name: &'static str,
    /// How it is written: `notify("text"[, args | value | name = value, …])`.
    pub usage: &'static str,
    /// A description, a sentence without a full stop.
    pub about: &'static str,
    /// Description of the text.
    pub text: &'static str,
    /// The text where none is given; without it one must be.
    pub default: Option<&'static str>,
    /// A hint at how values are given, for a text with `%`; none where a `%` in the text is the verb's own.
    pub values: Option<&'static str>,
    /// Whether it carries the event's fields where no values are given.
    pub carries_fields: bool,
    /// The objection to a text, if there is one.
    pub check: fn(&str) -> Result<(), String>,
    /// The part that it does not do where no agent serves the session.
    pub without_agent: Option<&'static str>,
    /// The effect of its text, for a record of a moment (ns since 1970).
    pub effect: fn(&str, u64) -> Effect,
}

/// Effect of a record's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The message is shown, with the record's values.
    Show,
    /// A text takes the place of the record.
    Print(String),
    /// A command is run, with the record as its input; then the message is shown.
    Run(String),
    /// Dump of the buffers' last records, from so long before the record; then the message is shown.
    Dump(Duration),
}
