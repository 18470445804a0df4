//! Records that are for an agent, and what they ask, as the state spells it.

use kestrel_compiler::check::tree::Message;
use serde::{Deserialize, Serialize};

/// A record that is for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageState {
    /// Its place among the records of the program's handlers.
    pub record: u16,
    /// What the agent does.
    pub ask: Ask,
    /// The text, the command, or the time.
    pub text: String,
}

/// What a record with a number asks of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedState {
    /// The record's number.
    pub number: u16,
    /// What the agent does.
    pub ask: Ask,
    /// The text, or the command.
    pub text: String,
}

/// What an agent does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Tell.
    Notify,
    /// Run.
    Exec,
    /// Write a trace.
    Dump,
}

impl MessageState {
    pub(in crate::session) fn message(&self) -> Message {
        self.ask.message(&self.text)
    }
}

impl Ask {
    pub(super) fn message(self, text: &str) -> Message {
        match self {
            Self::Notify => Message::Notify(text.to_owned()),
            Self::Exec => Message::Exec(text.to_owned()),
            Self::Dump => Message::Dump(text.to_owned()),
        }
    }
}
