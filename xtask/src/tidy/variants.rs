//! The rule that the variants of a central enumeration are matched in listed files only, each with its reason: whoever adds a variant finds there what else
//! has to change.

use super::files::{rust, without_tests};
use super::mechanisms::{is_pattern, variants};
use anyhow::Result;

/// An enumeration, the file that defines it, and the files that match its variants, each with its reason.
struct Known {
    name: &'static str,
    home: &'static str,
    files: &'static [(&'static str, &'static str)],
}

static KNOWN: &[Known] = &[
    Known {
        name: "ValueKind",
        home: "crates/trace/src/aggregate/map_type.rs",
        files: &[
            (
                "crates/compiler/src/check/each.rs",
                "the type of a loop's element is that of a value in a register, a string or memory",
            ),
            (
                "crates/compiler/src/check/map/change.rs",
                "values in memory are fitted to what the map holds",
            ),
            (
                "crates/compiler/src/check/map/content.rs",
                "the one place where two kinds of values agree or not",
            ),
            (
                "crates/compiler/src/check/map/read.rs",
                "what is read is a register, a string, memory or a sum over all CPUs",
            ),
            (
                "crates/compiler/src/codegen/lower/map.rs",
                "strings, memory and numbers are stored by other instructions",
            ),
            (
                "crates/trace/src/aggregate/json.rs",
                "how each kind is written in JSON",
            ),
            (
                "crates/trace/src/aggregate/kept.rs",
                "which descriptions read from files are sound",
            ),
            (
                "crates/trace/src/aggregate/order.rs",
                "by what rows of each kind are sorted",
            ),
            (
                "crates/trace/src/aggregate/read.rs",
                "how the values of all CPUs become one",
            ),
            (
                "crates/trace/src/aggregate/text.rs",
                "how each kind is written as text",
            ),
        ],
    },
    Known {
        name: "Action",
        home: "crates/compiler/src/check/tree/statement.rs",
        files: &[
            (
                "crates/compiler/src/check/uses.rs",
                "which names of tables and buffers a handler needs",
            ),
            (
                "crates/hook/src/hook/dispatch.rs",
                "the instructions of each: they need the maps of a session",
            ),
            (
                "crates/kestrel/src/session/state/from_plan.rs",
                "which tables a handler may switch to is part of the session's state",
            ),
            (
                "crates/replay/src/output.rs",
                "the only one that a recording can do is to end",
            ),
            ("crates/replay/src/refusal.rs", "the others are refused in words"),
        ],
    },
    Known {
        name: "Intrinsic",
        home: "crates/compiler/src/check/tree/expression.rs",
        files: &[
            (
                "crates/compiler/src/codegen/lower/value.rs",
                "the instructions of each",
            ),
            (
                "crates/compiler/src/codegen/lower/value_cache.rs",
                "values that change during a program are not kept in a register",
            ),
            (
                "crates/query/src/bind.rs",
                "which of them the header of a record has",
            ),
            ("crates/replay/src/refusal.rs", "which of them no recording has"),
        ],
    },
];

/// Files that match variants without a row in the table, and rows of files that match none any more.
pub(super) fn known_variants() -> Result<Vec<String>> {
    let files = rust()?;
    let mut broken = Vec::new();
    for known in KNOWN {
        let found = files.iter().filter_map(|(file, text)| {
            let line = first_match(known, file, text)?;
            Some((file.as_str(), line))
        });
        let found: Vec<(&str, usize)> = found.collect();
        let unknown = found
            .iter()
            .filter(|(file, _)| known.files.iter().all(|(listed, _)| listed != file));
        broken.extend(unknown.map(|(file, line)| {
            format!(
                "{file}:{line}: variants of {} are matched here: make it a method of the enumeration ({}), or give the file a row and a reason in \
                 tidy/variants.rs",
                known.name, known.home
            )
        }));
        let idle = known
            .files
            .iter()
            .filter(|(listed, _)| found.iter().all(|(file, _)| file != listed));
        broken.extend(
            idle.map(|(file, _)| format!("{file} matches no variant of {}: remove its row", known.name)),
        );
    }
    Ok(broken)
}

/// The line of the first pattern with a variant in a product file that is not the enumeration's own.
fn first_match(known: &Known, file: &str, text: &str) -> Option<usize> {
    let product = file.starts_with("crates/") && file.contains("/src/") && !file.ends_with("/tests.rs");
    if !product || file == known.home {
        return None;
    }
    let text = without_tests(text);
    let at = variants(&text, known.name).find(|at| is_pattern(&text, *at))?;
    Some(text[..at].lines().count().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_match_variants_are_found() {
        let known = &KNOWN[0];
        let matched = "match map.value {\n    ValueKind::Scalar(_) => 1,\n    _ => 2,\n}";
        assert_eq!(first_match(known, "crates/cli/src/main.rs", matched), Some(2));
        assert_eq!(first_match(known, known.home, matched), None);
        assert_eq!(
            first_match(known, "crates/cli/tests/whole/main.rs", matched),
            None
        );
        let made = "let value = ValueKind::Scalar(ty);";
        assert_eq!(first_match(known, "crates/cli/src/main.rs", made), None);
        let other = "match kind { MyValueKind::Scalar(_) => 1, _ => 2 }";
        assert_eq!(first_match(known, "crates/cli/src/main.rs", other), None);
    }
}
