//! A named probe to be added.

use kestrel_trace::files::Objection;
use std::path::PathBuf;

/// A probe to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The probe's name.
    pub name: String,
    /// The text: events, predicate, block.
    pub source: String,
    /// The line of the kernel's own syntax that it was made of.
    pub line: Option<String>,
    /// Whether it is only registered, and does nothing until it is enabled.
    pub disabled: bool,
    /// Where paths of compiled objects in its text count from; where the command runs if it is empty.
    pub beside: PathBuf,
    /// Objection to the file that it stands in: another user could change it; none for a text that the caller gives.
    pub objection: Option<Objection>,
}
