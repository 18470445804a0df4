//! Patterns over the names of events and threads: `*`, `?`, `[…]`, `{a,b}`.

use crate::error::{Error, Result};
use kestrel_compiler::lang::diag::did_you_mean;
use kestrel_trace::event::EventClass;
use kestrel_trace::user_files;

/// Whether a name is one that a pattern stands for.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    // Names are no paths, for which `*` would end at a slash: `kworker*` is `kworker/0:1`.
    let plain = |text: &str| text.replace('/', "\u{1}");
    pattern == name
        || match name.contains('/') {
            true => fast_glob::glob_match(plain(pattern), plain(name)),
            false => fast_glob::glob_match(pattern, name),
        }
}

/// Whether a text is more than one name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Whether an event is meant: by its whole name, one of a program's file by the end of the path (`uprobe:./server:main`), or, where a pattern has no group, by what
/// stands behind the group (`sched_switch`).
fn means(pattern: &str, event: &str) -> bool {
    matches(pattern, event)
        || is_in_file(pattern, event)
        || !pattern.contains(':')
            && event
                .rsplit_once(':')
                .is_some_and(|(_, name)| matches(pattern, name))
}

/// Whether an event is in a file of a program that a pattern names by the end of its path.
fn is_in_file(pattern: &str, event: &str) -> bool {
    let (Some((kind, pattern)), Some((own, name))) = (pattern.split_once(':'), event.split_once(':')) else {
        return false;
    };
    kind == own && user_files::matches(kind, pattern, name, matches)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_one_of_names() {
        for (pattern, name, yes) in [
            ("kworker*", "kworker/0:1", true),
            ("kworker/0*", "kworker/0:1", true),
            ("kworker/1*", "kworker/0:1", false),
            ("{bash,sh}", "sh", true),
            ("[0]", "[0]", true),
            ("sh", "bash", false),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
        assert!(means("sched_*", "sched:sched_switch") && !means("switch", "sched:sched_switch"));
        let main = "uprobe:/tmp/b/server:main";
        assert!(means("uprobe:./server:main", main) && means("uprobe:server:ma*", main));
        assert!(!means("uprobe:./erver:main", main) && !means("uretprobe:./server:main", main));
        assert!(means("sched:*", "sched:sched_switch") && !means("sched_switch", "other:sched_switch_off"));
    }
}
