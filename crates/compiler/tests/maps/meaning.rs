//! Golden: what handlers that share maps mean, and what is wrong with them.

use crate::dump;
use crate::kernel;
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::parse_events;

/// Checks handlers that share maps, one per line, each with the event before its colon.
fn checked(input: &str) -> String {
    let mut globals = Globals::default();
    let mut out = String::new();
    for line in input.lines() {
        let (event, handler) = line.split_once(": ").unwrap();
        let context = kernel::by_name(event);
        let text = format!("e:x {handler}");
        let (probe, found) = parse_events(&text);
        assert_eq!(found, [], "{text}");
        let (checked, found) = check(&probe, &context, true, &mut globals);
        if let Some(checked) = checked {
            out += &dump::checked::probe(&checked, context.types.as_deref());
        }
        out += &render(&found, "<expression>", &text, Style::default());
    }
    for ty in &globals.maps {
        out += &format!(
            "{} {:?} {:?}, {} keys\n",
            ty.title(),
            ty.keys,
            ty.value,
            ty.entries
        );
    }
    for (_, diagnostic) in &globals.unwritten {
        out += &format!("at the end: {}\n", diagnostic.message);
    }
    out
}

#[test]
fn meaning() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/maps.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut fresh = String::new();
    for case in text.split("=== ").skip(1) {
        let (title, body) = case.split_once('\n').unwrap();
        let input = body.split("\n---\n").next().unwrap().trim_end();
        fresh += &format!("=== {title}\n{input}\n---\n{}\n\n", checked(input).trim_end());
    }
    testkit::golden("tests/golden/maps.txt", &format!("{}\n", fresh.trim_end()));
}
