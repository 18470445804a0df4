//! Golden files: sections of input and expected outcome. `BLESS=1` rewrites the outcomes.
//!
//! A file is a list of cases. A case begins with `=== MODE title`, then its input, then `---` and what comes out.

#![allow(clippy::unwrap_used, reason = "a test")]

mod dump;
mod kernel;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::lang::diag::{Style, has_errors, render};
use kestrel_compiler::lang::{parse_events, parse_script};
use std::path::Path;

/// Runs every case of a file through `run` (mode, input → outcome).
fn golden(file: &str, run: impl Fn(&str, &str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut fresh = String::new();
    let mut cases = 0;
    for case in text.split("=== ").skip(1) {
        let (title, body) = case.split_once('\n').unwrap();
        let input = body.split("\n---\n").next().unwrap().trim_end();
        let mode = title.split(' ').next().unwrap();
        fresh += &format!("=== {title}\n{input}\n---\n{}\n\n", run(mode, input).trim_end());
        cases += 1;
    }
    assert!(cases > 0, "{file} holds no cases");
    testkit::golden(
        Path::new("tests/golden").join(file),
        &format!("{}\n", fresh.trim_end()),
    );
}

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
    checked_with(mode, input, Globals::default())
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
fn scripts() {
    golden("scripts.txt", parse);
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
