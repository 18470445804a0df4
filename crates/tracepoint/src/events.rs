//! The list of the program's events.

use crate::event::Event;
use crate::key;
use alloc::vec::Vec;

/// All events that the program's code emits, by group and name. An event that no code emits is not among them.
pub fn events() -> Vec<&'static Event> {
    let mut events = key::emitters();
    events.sort_unstable_by_key(|event| (event.group(), event.name()));
    events.dedup_by(|a, b| core::ptr::eq(*a, *b));
    events
}

/// The events whose `group:name` matches a pattern of the shell's kind: `server:*`, `*:request_{begin,end}`. Without a colon it is the pattern of a group.
#[cfg(feature = "std")]
pub fn matching(pattern: &str) -> Vec<&'static Event> {
    let pattern = match pattern.contains(':') {
        true => pattern.to_owned(),
        false => format!("{pattern}:*"),
    };
    let mut events = events();
    events.retain(|event| fast_glob::glob_match(&pattern, event.to_string()));
    events
}
