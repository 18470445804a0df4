//! The actions of records that a live reader performs (`notify`, `exec`, `dump`): one file and one row per verb. Performing them is not here.
//!
//! A verb is a built-in of the language by its row alone: `VERB("text"[, values])`. Its text belongs to the event class, its values are the record.

mod dump;
mod exec;
mod notify;
mod time;
mod verb;

pub use verb::{Effect, Verb};

/// A table: the verbs.
pub static VERBS: &[&Verb] = &[&notify::NOTIFY, &exec::EXEC, &dump::DUMP, &time::TIME];

/// Action that the records of an event class ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The verb's name. A newer Kestrel may have had more of them.
    pub verb: String,
    /// The action's text, such as a message or a command.
    pub text: String,
}

impl Action {
    /// The verb, if this Kestrel knows it.
    pub fn verb(&self) -> Option<&'static Verb> {
        VERBS.iter().copied().find(|verb| verb.name == self.verb)
    }

    /// Effect of a record of a moment (ns since 1970). What a verb does that is not known here is not done: its record is shown.
    pub fn effect(&self, moment: u64) -> Effect {
        self.verb()
            .map_or(Effect::Show, |verb| (verb.effect)(&self.text, moment))
    }

    /// Whether commands are run for it.
    pub fn runs_commands(&self) -> bool {
        matches!(self.effect(0), Effect::Run(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_unknown_verb_is_only_shown() {
        let action = |verb: &str, text: &str| Action {
            verb: verb.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(action("notify", "x").effect(0), Effect::Show);
        assert_eq!(action("fly", "x").effect(0), Effect::Show);
        assert!(action("exec", "true").runs_commands() && !action("fly", "true").runs_commands());
        assert_eq!(
            action("dump", "2m").effect(0),
            Effect::Dump(Duration::from_secs(120))
        );
    }
}
