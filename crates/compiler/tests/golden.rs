//! Golden files of texts, their trees and what is wrong with them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod cases;
mod dump;
mod kernel;

use cases::golden;
use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::lang::ast::Item;
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Diagnostic, Style, has_errors, render};
use kestrel_compiler::lang::expand::{Inputs, expand};
use kestrel_compiler::lang::{parse_events, parse_script};
use std::cell::RefCell;

fn parse(mode: &str, input: &str) -> String {
    let (tree, found) = match mode {
        "events" => {
            let (probe, found) = parse_events(input);
            (dump::syntax::probe(&probe, 0), found)
        }
        "script" => {
            let (script, found) = parse_script(input);
            (dump::syntax::script(&script), found)
        }
        other => panic!("unknown mode {other}"),
    };
    tree + &render(&found, "<expression>", input, Style::default())
}

/// The mode names the event; a predicate and a block are the input.
fn checked(mode: &str, input: &str) -> String {
    match mode.strip_prefix("long-strings-") {
        Some(mode) => {
            let globals = Globals {
                max_strlen: Some(600),
                ..Globals::default()
            };
            checked_with(mode, input, globals)
        }
        None => checked_with(mode, input, Globals::default()),
    }
}

/// The same as a handler of a table file, or outside of one.
fn steered(mode: &str, input: &str) -> String {
    match mode.strip_prefix("outside-") {
        Some(mode) => checked_with(mode, input, Globals::default()),
        None => checked_with(mode, input, kernel::session()),
    }
}

fn checked_with(mode: &str, input: &str, mut globals: Globals) -> String {
    let context = kernel::by_name(mode);
    let text = format!("e:x {input}");
    let (probe, found) = parse_events(text.trim_end());
    assert!(!has_errors(&found), "{input}: {found:?}");
    let (checked, found) = check(&probe, &context, true, &mut globals);
    assert_eq!(checked.is_none(), has_errors(&found));
    let tree = checked.map_or(String::new(), |c| {
        dump::checked::probe(&c, context.types.as_deref())
    });
    tree + &render(&found, "<expression>", &text, Style::default())
}

#[test]
fn syntax() {
    golden("syntax.txt", parse);
}

#[test]
fn table_files() {
    golden("table_files.txt", parse);
}

#[test]
fn syntax_errors() {
    golden("syntax_errors.txt", parse);
}

#[test]
fn meaning() {
    golden("check.txt", checked);
}

#[test]
fn meaning_errors() {
    golden("check_errors.txt", checked);
}

#[test]
fn steering() {
    golden("control.txt", steered);
}

#[test]
fn steering_errors() {
    golden("control_errors.txt", steered);
}

/// Mistakes that people make, in whole programs; the mode names the event that stands for all.
#[test]
fn mistakes() {
    // Each says what to write instead, or shows a second place.
    let silent_mistakes = RefCell::new(Vec::new());
    golden("mistakes.txt", |mode, input| {
        let inputs = Inputs::default();
        let expanded = expand("<script>", input, Config::default(), &inputs);
        let found = match has_errors(&expanded.found) {
            true => expanded.found,
            false => found_by_the_checker(mode, &expanded.script.items),
        };
        assert!(has_errors(&found), "no mistake: {input}");
        let silent = found.iter().filter(|d| d.hints.is_empty() && d.labels.is_empty());
        let silent = silent.filter(|d| !d.message.contains("Valid values: "));
        silent_mistakes
            .borrow_mut()
            .extend(silent.map(|d| format!("{input}: {}", d.message)));
        expanded.sources.render(&found, Style::default())
    });
    assert_eq!(silent_mistakes.take(), Vec::<String>::new());
}

fn found_by_the_checker(mode: &str, items: &[Item]) -> Vec<Diagnostic> {
    let context = kernel::by_name(mode);
    let mut globals = Globals {
        infers_types: true,
        source: Some(("<script>".to_owned(), "".into())),
        ..Globals::default()
    };
    let mut all: Vec<Diagnostic> = Vec::new();
    for item in items {
        if let Item::Probe(probe) = item {
            let (_, found) = check(probe, &context, true, &mut globals);
            all.extend(found);
        }
    }
    all
}

/// The parameters of a text, or what is wrong with them.
#[test]
fn parameters() {
    golden("parameters.txt", |mode, input| {
        assert_eq!(mode, "script");
        let (script, mut found) = parse_script(input);
        let (parameters, more) = kestrel_compiler::check::parameters(&script.items);
        found.extend(more);
        let shown = parameters
            .iter()
            .map(|p| format!("{} = {} : {}\n", p.name, p.value as i64, dump::checked::ty(&p.ty)));
        shown.collect::<String>() + &render(&found, "<file>", input, Style::default())
    });
}
