//! The rule about names of limits: `MAX` and `MIN`, which every reader looks for.

use anyhow::Result;

use super::files::rust;

/// Words that limits are not called by, and what they are called.
const LIMITS: [(&str, &str); 2] = [("MOST", "MAX"), ("LEAST", "MIN")];

/// Constants whose names begin with another word for a limit.
pub(super) fn names() -> Result<Vec<String>> {
    let all = rust()?;
    Ok(all.iter().flat_map(|(file, text)| in_file(file, text)).collect())
}

fn in_file(file: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((before, rest)) = line.split_once("const ") else {
            continue;
        };
        let is_item = before.trim().is_empty() || before.trim_start().starts_with("pub");
        for (word, usual) in LIMITS {
            let ends = |rest: &str| rest.starts_with(['_', ':']);
            if is_item && rest.strip_prefix(word).is_some_and(ends) {
                broken.push(format!(
                    "{file}:{}: a limit is called {usual}, not {word}",
                    number + 1
                ));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_limits_are_found() {
        let text = format!(
            "pub const {}_KEYS: u32 = 1;\n    const {}: u32 = 2;\nconst MAX: u32 = 3;\nconst {}LY: u32 = 4;\n",
            "MOST", "LEAST", "MOST"
        );
        assert_eq!(
            in_file("a.rs", &text),
            [
                "a.rs:1: a limit is called MAX, not MOST",
                "a.rs:2: a limit is called MIN, not LEAST"
            ]
        );
    }
}
