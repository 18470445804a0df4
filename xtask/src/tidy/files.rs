//! Rules about files as such: their first line, their name, their size; and the list of files that all rules use.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

/// Names under which things get lost.
const DRAWERS: &[&str] = &[
    "util", "utils", "common", "core", "shared", "helper", "helpers", "misc", "stuff",
];

/// A concept of the kernel's may bear the name of a drawer.
const NOT_DRAWERS: &[(&str, &str)] = &[
    ("crates/bpf/src/helper.rs", "BPF helper functions"),
    (
        "crates/bpf/src/interp/helpers.rs",
        "BPF helper functions, interpreted",
    ),
];

/// The largest file, in bytes.
const LARGEST: u64 = 256 << 10;

/// The longest file of Rust, in lines: what needs more is several subjects, tests included.
const LONGEST: usize = 600;

/// Every file that is, or would be, in the repository.
pub(super) fn files() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(crate::workspace::root())
        .output()
        .context("run git ls-files")?;
    ensure!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let root = crate::workspace::root();
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(names
        .lines()
        .filter(|name| root.join(name).is_file())
        .map(str::to_owned)
        .collect())
}

pub(super) fn text(file: &str) -> String {
    let bytes = fs::read(crate::workspace::root().join(file)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A formatted file of Rust with blank lines in the place of what only tests compile: every item behind `#[cfg(test)]`.
pub(super) fn without_tests(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut product = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            product.push_str(line);
            product.push('\n');
            continue;
        }
        product.push('\n');
        let mut item = None;
        for line in lines.by_ref() {
            product.push('\n');
            let begins_at = *item.get_or_insert(indentation(line));
            let attribute = line.trim_start().starts_with('#');
            if !attribute && indentation(line) == begins_at && line.ends_with([';', '}', ',']) {
                break;
            }
        }
    }
    product
}

/// Files of Rust, with their text.
pub(super) fn rust() -> Result<Vec<(String, String)>> {
    let files = files()?.into_iter().filter(|file| file.ends_with(".rs"));
    Ok(files
        .map(|file| (text(&file), file))
        .map(|(text, file)| (file, text))
        .collect())
}

/// Modules that do not say what is in them.
pub(super) fn first_lines() -> Result<Vec<String>> {
    let closed = |text: &str| !text.starts_with("//! ");
    let broken = rust()?.into_iter().filter(|(_, text)| closed(text));
    Ok(broken
        .map(|(file, _)| format!("{file} does not begin with a //! sentence"))
        .collect())
}

/// Files and folders in which things get lost.
pub(super) fn drawers() -> Result<Vec<String>> {
    let excused = |file: &str| NOT_DRAWERS.iter().any(|(place, _)| file.starts_with(place));
    let drawer = |part: &str| DRAWERS.contains(&part.strip_suffix(".rs").unwrap_or(part));
    let broken = files()?
        .into_iter()
        .filter(|file| file.split('/').any(drawer) && !excused(file));
    Ok(broken
        .map(|file| format!("{file} says nothing by its name (util, common, helpers, …)"))
        .collect())
}

/// Files too large for a repository of sources, and files of Rust too long for one subject.
pub(super) fn sizes() -> Result<Vec<String>> {
    let size = |file: &String| fs::metadata(crate::workspace::root().join(file)).map_or(0, |file| file.len());
    let broken = files()?
        .into_iter()
        .map(|file| (size(&file), file))
        .filter(|(size, _)| *size > LARGEST);
    let mut all: Vec<String> = broken
        .map(|(size, file)| format!("{file} has {size} bytes, more than {LARGEST}"))
        .collect();
    all.extend(rust()?.into_iter().filter_map(|(file, text)| {
        let lines = text.lines().count();
        (lines > LONGEST).then(|| format!("{file} has {lines} lines, more than {LONGEST}"))
    }));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_items_of_tests_are_taken_out() {
        let text = "a\n#[cfg(test)]\nmod tests;\nb {\n    #[cfg(test)]\n    #[allow(x)]\n    fn c() {\n        d();\n    }\n    e\n}\n";
        assert_eq!(without_tests(text), "a\n\n\nb {\n\n\n\n\n\n    e\n}\n");
    }
}
