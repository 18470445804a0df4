//! Patterns over the names of events and threads: `*`, `?`, `[…]`, `{a,b}`.

use crate::error::{Error, Result};
use kestrel_compiler::lang::diag::did_you_mean;
use kestrel_trace::event::EventClass;

/// Whether a name is one that a pattern stands for.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern == name || fast_glob::glob_match(pattern, name)
}

/// Whether a text is more than one name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Whether an event is meant: by its whole name, or, where a pattern has no group, by what stands behind the group (`sched_switch`).
fn means(pattern: &str, event: &str) -> bool {
    matches(pattern, event)
        || !pattern.contains(':')
            && event
                .rsplit_once(':')
                .is_some_and(|(_, name)| matches(pattern, name))
}

/// The events that a pattern means.
///
/// # Errors
/// When there are none.
pub(crate) fn events<'e>(pattern: &str, all: &'e [EventClass]) -> Result<Vec<&'e EventClass>> {
    let pattern = pattern.strip_prefix("tracepoint:").unwrap_or(pattern);
    let found: Vec<&EventClass> = all.iter().filter(|event| means(pattern, &event.name)).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::NoEvent {
            pattern: pattern.to_owned(),
            near: did_you_mean(pattern, all.iter().flat_map(|event| names(&event.name))),
            events: all.iter().map(|event| event.name.clone()).collect(),
        }),
    }
}

/// The names that an event is called by.
fn names(event: &str) -> impl Iterator<Item = &str> {
    let short = event.rsplit_once(':').map(|(_, name)| name);
    std::iter::once(event).chain(short)
}
