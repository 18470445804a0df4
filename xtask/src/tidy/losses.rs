//! The rule about the words for losses: what people and programs read says *lost*, *overwritten*, *missed*, *truncated*, *absent*, and no other word for a count.

use super::files::{rust, without_tests};
use anyhow::Result;

/// Other words for the same counts, and the one to use.
const OTHERS: &[(&str, &str)] = &[
    ("refused", "lost"),
    ("discarded", "lost"),
    ("dropped", "lost"),
    ("skipped", "missed"),
];

/// Public counts, JSON keys, heads of columns and names of metrics that name a loss by a word of their own.
pub(super) fn losses() -> Result<Vec<String>> {
    let product = |(file, _): &(String, String)| file.starts_with("crates/") && file.contains("/src/");
    let files = rust()?.into_iter().filter(product);
    Ok(files.flat_map(|(file, text)| in_file(&file, &text)).collect())
}

fn in_file(file: &str, text: &str) -> Vec<String> {
    let text = without_tests(text);
    let lines = text.lines().zip(1..);
    let broken = lines.flat_map(|(line, number)| {
        OTHERS.iter().filter_map(move |(other, word)| {
            let named = is_count(line, other) || is_key(line, other) || is_metric(line, other);
            named.then(|| {
                format!("{file}:{number}: a count is called `{other}`; the glossary's word is `{word}`")
            })
        })
    });
    broken.collect()
}

/// `pub refused: u64`, `pub refused_frozen: u64`.
fn is_count(line: &str, word: &str) -> bool {
    let field = line.trim_start().strip_prefix("pub ");
    let name = field.and_then(|field| field.strip_suffix(": u64,"));
    name.is_some_and(|name| is_named(name, word))
}

/// `"refused"`, `"REFUSED"`, `"refused_frozen"`: a key of JSON or the head of a column.
fn is_key(line: &str, word: &str) -> bool {
    let literals = line.split('"').skip(1).step_by(2);
    literals
        .map(str::to_ascii_lowercase)
        .any(|literal| is_named(&literal, word))
}

/// `"kestrel_buffer_refused"`.
fn is_metric(line: &str, word: &str) -> bool {
    let mut literals = line.split('"').skip(1).step_by(2);
    literals.any(|literal| {
        let name = literal.strip_prefix("kestrel_");
        name.is_some_and(|name| name.split('_').any(|part| part == word))
    })
}

fn is_named(name: &str, word: &str) -> bool {
    let rest = name.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_a_loss_are_found_wherever_they_are_read() {
        let found = |line: &str| in_file("f.rs", line).len();
        for line in [
            "    pub refused: u64,",
            "    pub discarded_frozen: u64,",
            r#"json!({ "event": name, "skipped": count })"#,
            r#"            "REFUSED","#,
            r#"family("kestrel_buffer_dropped_total", "…")"#,
        ] {
            assert_eq!(found(line), 1, "{line}");
        }
        for line in [
            "    pub lost: u64,",
            "    pub refused: Vec<Refused>,",
            "    pub events_discarded: u64,",
            r#"format!("{} was refused by the kernel", name)"#,
            "#[cfg(test)]\n pub refused: u64,",
        ] {
            assert_eq!(found(line), 0, "{line}");
        }
    }
}
