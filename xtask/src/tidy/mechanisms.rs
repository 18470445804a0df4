//! The rule that rooms ask a mechanism of attaching instead of telling mechanisms apart: its variants are named where mechanisms are defined and where
//! event kinds make them, so that a new one is a file and a row, and the compiler says what it lacks.

use super::files::{rust, without_tests};
use anyhow::Result;

/// Where mechanisms are defined.
const LAYER: &str = "crates/catalog/src/attach/";
/// Where event kinds make them for their strategies.
const MAKERS: &str = "crates/catalog/src/catalog/";

/// Files among the makers that take a mechanism apart, each with its reason.
const EXCEPTIONS: &[&str] = &[
    // The program of both ends of calls is made out of that of functions, which alone has both ends.
    "crates/catalog/src/catalog/kind.rs",
    // A function of a module that is not loaded is awaited as an instruction of the same name, which only kprobes can.
    "crates/catalog/src/catalog/instruction.rs",
    // Whether an event kind's own strategies use the raw tracepoint of all system calls: those of another kind cannot.
    "crates/catalog/src/catalog/tracepoint/mod.rs",
    // Types of a function's arguments are looked up in the file that the kind has just resolved.
    "crates/catalog/src/catalog/uprobe.rs",
];

/// Files that tell mechanisms apart without a reason in the list, and reasons that nothing needs any more.
pub(super) fn mechanisms() -> Result<Vec<String>> {
    let mut needed = vec![false; EXCEPTIONS.len()];
    let mut broken = Vec::new();
    for (file, text) in rust()? {
        let found = in_file(&file, &text);
        match EXCEPTIONS.iter().position(|known| *known == file) {
            Some(known) => needed[known] = !found.is_empty(),
            None => broken.extend(found),
        }
    }
    let idle = EXCEPTIONS.iter().zip(needed).filter(|(_, needed)| !needed);
    broken.extend(idle.map(|(file, _)| format!("{file} matches no mechanism: it needs no exception")));
    Ok(broken)
}

fn in_file(file: &str, text: &str) -> Vec<String> {
    let product = file.starts_with("crates/") && file.contains("/src/");
    if !product || file.starts_with(LAYER) {
        return Vec::new();
    }
    let text = without_tests(text);
    let named = variants(&text, "Mechanism");
    // Elsewhere than in an event kind one is made by `into()`, so that code that names a variant distinguishes it from others.
    let matched = named.filter(|at| !file.starts_with(MAKERS) || is_pattern(&text, *at));
    let sentence = |at: usize| {
        let line = text[..at].lines().count().max(1);
        format!(
            "{file}:{line}: mechanisms are distinguished outside of the attach layer: ask it by a method of Attach"
        )
    };
    matched.map(sentence).collect()
}

/// Where a text names variants of an enumeration.
pub(super) fn variants<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    let named = text.match_indices(name).filter(move |(at, _)| {
        let begins = !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let comment = text[..*at].lines().last().is_some_and(|line| line.contains("//"));
        let variant = text[at + name.len()..].strip_prefix("::");
        let variant =
            variant.is_some_and(|it| it.starts_with(|c: char| c.is_uppercase() || "{*".contains(c)));
        begins && variant && !comment
    });
    named.map(|(at, _)| at)
}

/// Whether the variant that is named here is a pattern, or compared, rather than made.
pub(super) fn is_pattern(text: &str, at: usize) -> bool {
    let (before, variant) = text.split_at(at);
    let before = before.trim_end();
    let first = variant.split_once("::").map_or("", |(_, behind)| behind);
    let imported = first.starts_with(['{', '*']);
    let compared = ["==", "!=", "|", "let", "if let", "while let"]
        .iter()
        .any(|sign| before.ends_with(sign));
    let asked = opened(before).is_some_and(|call| call.trim_end().ends_with("matches!"));
    let behind = behind(variant).trim_start_matches([')', ' ', '\n']);
    let arm = behind.starts_with("=>") || behind.starts_with("if ") || behind.starts_with("| ");
    let bound = behind.starts_with("= ") || behind.starts_with("==") || behind.starts_with("!=");
    imported || compared || asked || arm || bound
}

/// The text before the parenthesis in which a text ends; none where it ends in none.
fn opened(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | '}' => depth += 1,
            '(' if depth == 0 => return Some(&text[..at]),
            '{' if depth == 0 => return None,
            '(' | '{' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The text behind a variant and its content.
fn behind(variant: &str) -> &str {
    let mut depth = 0;
    for (at, c) in variant.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' if depth <= 1 => return &variant[at + usize::from(depth == 1)..],
            ')' | '}' => depth -= 1,
            c if depth == 0 && !(c.is_alphanumeric() || c == '_' || c == ':') => return &variant[at..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_that_is_matched_elsewhere_is_found() {
        let matched = [
            "match mechanism { Mechanism::Calls(call) => call.at_return, _ => false }",
            "match mechanism { Some(Mechanism::Calls(Calls { at_return, .. })) if ready => 1, _ => 2 }",
            "let Mechanism::Counter(clock) = &strategy.mechanism else {\n    return None;\n};",
            "if let Some(Mechanism::Trampoline(Trampoline {\n    module, ..\n})) = found {}",
            "let raw = matches!(\n    mechanism,\n    Mechanism::TypedTracepoint(_) | Mechanism::RawTracepoint(_)\n);",
            "set.mechanism == Mechanism::Tracepoints(Tracepoints)",
            "Mechanism::Tracepoints(Tracepoints) != set.mechanism",
            "use Mechanism::{Calls, Entry};",
        ];
        for text in matched {
            assert!(
                !in_file("crates/catalog/src/catalog/mark.rs", text).is_empty(),
                "{text}"
            );
            assert!(
                !in_file("crates/kestrel/src/plan/calls.rs", text).is_empty(),
                "{text}"
            );
            assert!(
                in_file("crates/catalog/src/attach/mod.rs", text).is_empty(),
                "{text}"
            );
            assert!(
                in_file("crates/kestrel/tests/house/main.rs", text).is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn event_kinds_make_mechanisms() {
        let made = [
            "Strategy::new(Mechanism::OnRequest(OnRequest { name, every: None }), context)",
            "let typed = || {\n    Mechanism::TypedTracepoint(TypedTracepoint {\n        name,\n    })\n};",
            "strategies.push(Strategy::new(\n    Mechanism::Functions(Functions { alone: true }),\n    context,\n));",
            "let mechanism = Mechanism::Iterator(attach::Iterator { name });\nlet x = match y { 1 => 2 };",
            "// Mechanism::Entry( is what\n//! [`Mechanism::Entry`] => x",
        ];
        for text in made {
            let found = in_file("crates/catalog/src/catalog/mark.rs", text);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
        let elsewhere = in_file("crates/kestrel/src/plan/constant_records.rs", made[0]);
        assert_eq!(elsewhere.len(), 1);
        assert!(elsewhere[0].starts_with("crates/kestrel/src/plan/constant_records.rs:1:"));
    }
}
