//! Event classes: each has a number, a name, a kind and a layout; what did happen is a record.

use crate::action::Action;
use crate::layout::Layout;
use crate::packet::CAPACITY;

/// Number of an event class within its trace: the id in each record's header. 0 is never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u16);

/// An event class: one kind of record in a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct EventClass {
    /// The number in record headers.
    pub id: EventId,
    /// Name of the event: `sched:sched_switch`, `kprobe:vfs_read`.
    pub name: String,
    /// The event kind's canonical name: `tracepoint`, `kprobe`, `kretprobe`, `fentry`, …
    pub kind: String,
    /// The payload's fields.
    pub layout: Layout,
    /// The action that a live reader performs for each of its records.
    pub action: Option<Action>,
    /// How its records are printed where it is not by names and values: [`crate::print::OwnFormat`].
    pub print: Option<String>,
}

impl EventClass {
    /// Whether its records are longer than a page has room for, so that they come in pieces ([`crate::stack_pieces`]).
    pub fn is_long(&self) -> bool {
        is_long(&self.layout, self.action.as_ref())
    }
}

/// Whether records of a layout come in pieces: those of actions do where they do not fit into a page, those of events are cut.
pub fn is_long(layout: &Layout, action: Option<&Action>) -> bool {
    action.is_some() && layout.max_size() > CAPACITY
}
