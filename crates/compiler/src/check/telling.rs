//! How built-ins that tell an agent something differ.

use super::tree::Message;

/// What `notify` and `exec` differ in.
pub(crate) struct Telling {
    /// What its first argument is.
    pub(crate) what: &'static str,
    /// What to do where somebody hopes that values are put into the text.
    pub(crate) values: &'static str,
    /// What is wrong with the text, if anything is.
    pub(crate) check: fn(&str) -> Result<(), String>,
    /// What it does not do where no agent can be asked: its record shows it then. None where the record is all there is to it.
    pub(crate) unheard: Option<&'static str>,
    pub(crate) make: fn(String) -> Message,
}
