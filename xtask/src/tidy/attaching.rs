//! The rule that programs are attached in one place: only the rooms here make links and perf events.

use super::files::{rust, without_tests};
use anyhow::Result;

/// Where links are made, each with its reason.
const ROOMS: &[&str] = &[
    // The kernel's calls.
    "crates/kernel/",
    // The attach layer: one file per mechanism.
    "crates/catalog/src/attach/",
    // An object's iterator walks a map or a control group that is open, which no state of a session can keep.
    "crates/object/src/attach/iterator.rs",
    // Events that only count: no program is put on them.
    "crates/kestrel/src/stat/counters.rs",
];

/// Files elsewhere that call a constructor of `Link` or `PerfEvent`.
pub(super) fn attaching() -> Result<Vec<String>> {
    let files = rust()?.into_iter();
    Ok(files.flat_map(|(file, text)| in_file(&file, &text)).collect())
}

fn in_file(file: &str, text: &str) -> Vec<String> {
    let product = file.starts_with("crates/") && file.contains("/src/");
    if !product || ROOMS.iter().any(|room| file.starts_with(room)) {
        return Vec::new();
    }
    let text = without_tests(text);
    let lines = text.lines().zip(1..);
    let made = lines.filter(|(line, _)| {
        let makes = |kind: &str| {
            line.match_indices(kind).any(|(at, _)| {
                let begins = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                begins && line[at + kind.len()..].contains('(')
            })
        };
        makes("Link::") || makes("PerfEvent::")
    });
    let broken =
        made.map(|(_, number)| format!("{file}:{number}: a link is made outside of the attach layer"));
    broken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_made_elsewhere_is_found() {
        let text = "let link = Link::raw_tracepoint(&program, name, 0)?;";
        assert_eq!(
            in_file("crates/kestrel/src/session/hooks/trackers.rs", text).len(),
            1
        );
        let text = "let event = PerfEvent::uprobe(host, path, offset, false, target)?;";
        assert_eq!(in_file("crates/object/src/attach/uprobe.rs", text).len(), 1);
        assert!(in_file("crates/catalog/src/attach/uprobe.rs", text).is_empty());
        assert!(in_file("crates/object/src/load.rs", "KprobeVia::Link => Via::Link,").is_empty());
        assert!(in_file("crates/object/src/load.rs", "Self::PinnedLink::of(x)").is_empty());
    }
}
