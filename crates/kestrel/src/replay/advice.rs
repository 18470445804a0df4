//! Advice on what to record instead, in refusals of a program: for each event all that a handler needs of it, and for the program one line.

use super::events::RECORD_IT;
use kestrel_compiler::lang::ast::{EventSpec, Expr, ExprKind, Probe};
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_compiler::lang::walk::Node;
use kestrel_replay::event::{advice, advised};

/// Words whose values records have only where they were asked to.
const WORDS: &[&str] = &[
    "kstack", "ustack", "uid", "gid", "cgroup", "curtask", "numaid", "jiffies",
];

/// The words of the language that a handler uses and that must be recorded with its event.
pub(super) fn words_to_record(probe: &Probe) -> Vec<&'static str> {
    let uses = |word: &str| {
        probe.any(&|node| match node {
            Node::Expr(Expr {
                kind: ExprKind::Identifier(name),
                ..
            }) => name == word,
            Node::Expr(Expr {
                kind: ExprKind::Call { name, .. },
                ..
            }) => name.node == word,
            _ => false,
        })
    };
    let has = |word: &str| uses(word) || word == "uid" && uses("username");
    WORDS.iter().copied().filter(|word| has(word)).collect()
}

/// Has the first refusal of what was not recorded with an event say how all would be, and the others nothing: the arguments and memory of `values`, and words.
pub(super) fn advise(refused: &mut [Diagnostic], event: &str, mut values: String) {
    let mut hints = Vec::new();
    for diagnostic in refused {
        let Some(at) = diagnostic
            .hints
            .iter()
            .position(|hint| advised(hint, event).is_some())
        else {
            continue;
        };
        let hint = diagnostic.hints.remove(at);
        values = with_word(values, advised(&hint, event));
        hints.push(&mut diagnostic.hints);
    }
    if let Some(first) = hints.into_iter().next() {
        first.push(advice(event, &values));
    }
}

/// Values to record, with one more that is a word (`kstack`, `uid`): others are of arguments, which are among them.
pub(super) fn with_word(values: String, other: Option<&str>) -> String {
    let word = other.filter(|value| value.chars().all(char::is_alphabetic));
    match word.filter(|word| !values.split(", ").any(|value| value == *word)) {
        Some(word) => format!("{values}, {word}"),
        None => values,
    }
}

/// Parts of advised values that stand for what is not known.
const PLACEHOLDERS: &[&str] = &["…", "BYTES", "ADDRESS"];

/// Whether the user is to fill in something of advised values, which cannot be pasted.
pub(super) fn is_to_fill_in(values: &str) -> bool {
    PLACEHOLDERS.iter().any(|it| values.contains(it))
}

/// What must be there where all events may be missing.
const ALTERNATIVES: &str =
    "the program goes without those that its kernel or files do not have, but not without all";

/// Why there is no line that records one of them.
const NONE_HERE: &str = "this kernel has none of them: no recording that is made here answers this program";

/// Why there is no line that records an event.
const NOT_HERE: &str = "this kernel does not have it: no recording that is made here answers this program";

/// Advice where of alternatives that may be missing none was recorded: what this kernel does not have is recorded on no line. `named` are the events, each with
/// its refusal, `has` says of one whether this kernel has it, where that is known.
pub(super) fn advise_alternatives(
    missing: &mut [Diagnostic],
    named: &[(&EventSpec, Diagnostic)],
    has: &dyn Fn(&EventSpec) -> Option<bool>,
) {
    let has: Vec<_> = named.iter().map(|(spec, _)| has(spec)).collect();
    let of = |wanted: bool| {
        let all = named.iter().zip(&has);
        all.filter(move |(_, has)| **has == Some(wanted))
            .map(|((_, refused), _)| refused)
    };
    for absent in of(false) {
        for one in missing.iter_mut().filter(|one| *one == absent) {
            one.hints.retain(|hint| !hint.starts_with(RECORD_IT));
        }
    }
    if let Some(last) = missing.last_mut() {
        last.hints.push(ALTERNATIVES.to_owned());
        if let Some((line, 1..)) = together(of(true)) {
            last.hints.push(format!("record those that are here: {line}"));
        } else if !has.is_empty() && has.iter().all(|has| *has == Some(false)) {
            last.hints.push(NONE_HERE.to_owned());
        }
    }
}

/// Has the refusals of events that this kernel does not have say so, instead of a line that records them here; gives whether there are any.
pub(super) fn say_absent(
    refused: &mut [Diagnostic],
    named: &[(&EventSpec, Diagnostic)],
    has: &dyn Fn(&EventSpec) -> Option<bool>,
) -> bool {
    let mut any = false;
    for (_, absent) in named.iter().filter(|(spec, _)| has(spec) == Some(false)) {
        for one in refused.iter_mut().filter(|one| *one == absent) {
            one.hints.retain(|hint| !hint.starts_with(RECORD_IT));
            one.hints.push(NOT_HERE.to_owned());
            any = true;
        }
    }
    any
}

/// Adds to the last advice of several one line that records all events as they were advised.
pub(super) fn advise_together(refused: &mut [Diagnostic]) {
    if let Some((line, 2..)) = together(refused.iter())
        && let Some(last) = refused.last_mut()
    {
        last.hints.push(format!("record all of it: {line}"));
    }
}

/// The line that records all events as they were advised, and how many these are; none where the user is to fill something in.
pub(super) fn together<'d>(refused: impl Iterator<Item = &'d Diagnostic>) -> Option<(String, usize)> {
    let hints = refused.flat_map(|diagnostic| &diagnostic.hints);
    let mut options: Vec<(&str, Vec<&str>)> = Vec::new();
    for option in hints.filter_map(|hint| hint.strip_prefix(RECORD_IT)?.strip_suffix('\'')) {
        let (event, values) = match option.split_once(" { record(args, ") {
            Some((event, values)) => (event, split(values.strip_suffix(") }").unwrap_or(values))),
            None => (option, Vec::new()),
        };
        if values.iter().any(|value| is_to_fill_in(value)) {
            return None;
        }
        match options.iter_mut().find(|(known, _)| *known == event) {
            None => options.push((event, values)),
            Some((_, known)) => {
                for value in values {
                    if known.contains(&value) {
                        continue;
                    }
                    if known.iter().any(|other| field(other) == field(value)) {
                        return None;
                    }
                    known.push(value);
                }
            }
        }
    }
    let mut line = String::from("kestrel record");
    let plain = options.iter().filter(|(_, values)| values.is_empty());
    let plain: Vec<&str> = plain.map(|(event, _)| *event).collect();
    if !plain.is_empty() {
        line.push_str(&format!(" -e '{}'", plain.join(",")));
    }
    for (event, values) in options.iter().filter(|(_, values)| !values.is_empty()) {
        line.push_str(&format!(
            " -e '{event} {{ record(args, {}) }}'",
            values.join(", ")
        ));
    }
    Some((line, options.len()))
}

/// The values of a list, in which those of calls stand in parentheses.
fn split(values: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let at_commas = values.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    at_commas.map(str::trim).collect()
}

/// The name of the field that a value is recorded in.
fn field(value: &str) -> &str {
    value.split_once(" = ").map_or(value, |(name, _)| name)
}
