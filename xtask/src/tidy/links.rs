//! The rules about pages for people: relative links lead to files and headings that are there, the book has every page, and the README is one screen after another.

use std::collections::BTreeMap;

use anyhow::Result;

use super::files::{files, text};

/// Lines of the README, at most.
const README: usize = 150;

/// Links that lead nowhere, pages that the book does not have, and a README that is too long.
pub(super) fn links() -> Result<Vec<String>> {
    let files = files()?;
    let is_page =
        |file: &&String| file.ends_with(".md") && (!file.contains('/') || file.starts_with("docs/"));
    let pages: BTreeMap<&str, String> = files
        .iter()
        .filter(is_page)
        .map(|file| (file.as_str(), text(file)))
        .collect();
    let mut broken = dead(&pages, &files);
    let book = text("docs/SUMMARY.md");
    let pages_of_docs = pages.keys().filter_map(|page| page.strip_prefix("docs/"));
    for page in pages_of_docs.filter(|page| *page != "SUMMARY.md" && !book.contains(&format!("({page})"))) {
        broken.push(format!("docs/SUMMARY.md does not have {page}"));
    }
    let lines = text("README.md").lines().count();
    if lines > README {
        broken.push(format!(
            "README.md has {lines} lines; move some to docs/ (at most {README})"
        ));
    }
    Ok(broken)
}

fn dead(pages: &BTreeMap<&str, String>, files: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    for (page, text) in pages {
        for target in targets(text) {
            let (path, heading) = target
                .split_once('#')
                .map_or((target, None), |(path, heading)| (path, Some(heading)));
            let path = match path {
                "" => (*page).to_owned(),
                path => resolved(page, path),
            };
            if !files
                .iter()
                .any(|file| *file == path || file.starts_with(&format!("{path}/")))
            {
                broken.push(format!("{page}: nothing is at {target}"));
            } else if page.starts_with("docs/") && !path.starts_with("docs/") {
                broken.push(format!("{page}: {target} is no page of the book"));
            } else if let (Some(heading), Some(text)) = (heading, pages.get(path.as_str()))
                && !text.lines().filter_map(anchor).any(|known| known == heading)
            {
                broken.push(format!("{page}: {path} has no heading for #{heading}"));
            }
        }
    }
    broken
}

/// Where the relative links of a page lead; what stands in code is none.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.lines().filter(|line| !line.starts_with("    "));
    let links = prose.flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    links.filter(|target| !target.contains("://") && !target.contains(' '))
}

/// A path from a page's folder, from the root.
fn resolved(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// How a line that is a heading is linked to.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let files = ["README.md", "docs/a.md", "docs/b.md", "src/lib.rs"].map(str::to_owned);
        let of = |page: &'static str, text: &str| {
            dead(
                &BTreeMap::from([
                    (page, text.to_owned()),
                    ("docs/b.md", "# One\n\n## Two words, here\n".to_owned()),
                ]),
                &files,
            )
        };
        assert!(
            of(
                "docs/a.md",
                "[b](b.md) [in](b.md#two-words-here) [far](https://x/y.md)"
            )
            .is_empty()
        );
        assert!(of("docs/a.md", "    code[0](none.md)\n").is_empty());
        assert_eq!(of("docs/a.md", "[c](c.md)"), ["docs/a.md: nothing is at c.md"]);
        assert_eq!(
            of("docs/a.md", "[up](../README.md)"),
            ["docs/a.md: ../README.md is no page of the book"]
        );
        assert_eq!(of("README.md", "[b](b.md)"), ["README.md: nothing is at b.md"]);
        assert_eq!(
            of("README.md", "[b](docs/b.md#three)"),
            ["README.md: docs/b.md has no heading for #three"]
        );
    }
}
