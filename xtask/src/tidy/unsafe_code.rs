//! The rule that unsafe code stands in the crates that exist for it.

use anyhow::Result;

use super::files::rust;

/// Folders in which unsafe code may stand.
const UNSAFE: &[&str] = &["crates/kernel/", "crates/tracepoint/", "bench/tracepoint/"];

/// Unsafe code outside the places for it; crates elsewhere forbid it in their first lines.
pub(super) fn unsafe_code() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for (file, text) in rust()? {
        if UNSAFE.iter().any(|place| file.starts_with(place)) {
            continue;
        }
        let code = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        let starts = ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "];
        if code
            .clone()
            .any(|line| starts.iter().any(|start| contains_word(line, start)))
        {
            broken.push(format!("{file} holds unsafe code"));
        }
        let door =
            file.ends_with("src/lib.rs") || file.ends_with("src/main.rs") || file.contains("/src/bin/");
        if door && is_door(&file) && !text.contains("#![forbid(unsafe_code)]") {
            broken.push(format!("{file} does not forbid unsafe code"));
        }
    }
    Ok(broken)
}

/// A file under `src/bin` is a crate's door; one in a folder of it is a room.
fn is_door(file: &str) -> bool {
    file.split_once("/src/bin/")
        .is_none_or(|(_, rest)| !rest.contains('/'))
}

/// `needle` in `line`, outside of quotes and not as the tail of a longer word.
fn contains_word(line: &str, needle: &str) -> bool {
    line.find(needle).is_some_and(|at| {
        let before = &line[..at];
        before.matches('"').count().is_multiple_of(2)
            && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_seen_where_it_is_code() {
        let code = |line: &str| contains_word(&line.replace("UNSAFE", "unsafe"), "unsafe {");
        assert!(code("let x = UNSAFE { f() };"));
        assert!(!code("say(\"UNSAFE { }\")") && !code("notUNSAFE { }"));
    }
}
