//! The rule that an entry of CHANGELOG.md is one line of one sentence or two, and stands there once: what a change is, not how it came about.

use std::collections::BTreeSet;

use anyhow::Result;

use super::files::text;

/// Most characters of an entry.
const LIMIT: usize = 200;

/// Entries of CHANGELOG.md that are too long, go on in a second line, or stand there twice.
pub(super) fn changelog() -> Result<Vec<String>> {
    Ok(broken(&text("CHANGELOG.md")))
}

fn broken(page: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let mut seen = BTreeSet::new();
    let entries = (1..)
        .zip(page.lines())
        .skip_while(|(_, line)| !line.starts_with("## "));
    for (number, line) in entries.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let characters = line.chars().count();
        if !line.starts_with("- ") {
            broken.push(format!(
                "CHANGELOG.md:{number}: an entry is one line that begins with `- `"
            ));
        } else if characters > LIMIT {
            broken.push(format!(
                "CHANGELOG.md:{number}: {characters} characters, more than {LIMIT}: its first sentence is enough"
            ));
        }
        if !seen.insert(line) {
            broken.push(format!("CHANGELOG.md:{number}: it stands there twice"));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_repeated_entries_are_found() {
        let long = format!("- {}", "x".repeat(199));
        let page = format!(
            "# Changelog\nwords\n## [Unreleased]\n### Added\n- a\n  goes on\n- ä{}\n{long}\n- a\n",
            "x".repeat(197)
        );
        assert_eq!(
            broken(&page),
            [
                "CHANGELOG.md:6: an entry is one line that begins with `- `",
                "CHANGELOG.md:8: 201 characters, more than 200: its first sentence is enough",
                "CHANGELOG.md:9: it stands there twice"
            ]
        );
    }
}
