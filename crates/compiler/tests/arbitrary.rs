//! Arbitrary texts: the parser never panics, ends soon, and its spans lie inside the text.

#![allow(clippy::unwrap_used, reason = "a test")]

mod kernel;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::{parse_events, parse_script};
use proptest::prelude::*;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static EVENTS: LazyLock<Vec<Context>> = LazyLock::new(kernel::arbitrary);

/// Pieces that make a text look like the language.
const PIECES: &[&str] = &[
    "kprobe:f",
    "sched:*",
    "BEGIN",
    ",",
    "/",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    "=",
    "==",
    "+",
    "*",
    "&&",
    "?",
    ":",
    "..",
    "->",
    ".",
    "++",
    "$x",
    "@m",
    "@",
    "$1",
    "pid",
    "args",
    "struct task_struct",
    "\"text\"",
    "\"",
    "'",
    "#",
    "if",
    "else",
    "while",
    "for",
    "unroll",
    "let",
    "return",
    "sizeof",
    "offsetof",
    "table",
    "buffer",
    "param",
    "config",
    "42",
    "0x",
    "4M",
    "\n",
    " ",
    "//",
    "/*",
    "*/",
    "é",
    "\\",
    "record",
    "uint64",
    "\u{0}",
];

fn try_all(text: &str) {
    let (probe, found) = parse_events(text);
    for context in &*EVENTS {
        let (_, more) = check(&probe, context, true, &mut Globals::default());
        render(&more, "x", text, Style::default());
    }
    render(&found, "x", text, Style { colour: true });
    let (_, more) = parse_script(text);
    render(&more, "x", text, Style::default());
    for diagnostic in found.iter().chain(&more) {
        assert!(
            diagnostic.span.end as usize <= text.len().max(2),
            "{diagnostic:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_text(text in "\\PC*") {
        try_all(&text);
    }

    #[test]
    fn expression_soup(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        try_all(&format!("e:x {{ $x = 1; $y = {}; record({}) }}", pieces.concat(), pieces.concat()));
    }

    #[test]
    fn token_soup(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..200), glue in "| ") {
        try_all(&pieces.join(&glue));
    }
}

#[test]
fn endless_nesting_and_endless_chains_end_soon() {
    let begin = Instant::now();
    for piece in [
        "(",
        "-",
        "{",
        "[",
        "$x=1||1&&1|1^1&1==1<1<<1+1*(",
        "1+",
        "if(1){",
        "if 1 {} else ",
        "$x[",
        "a.",
        "a(",
        "? ",
        "1?1:",
        "@x[",
        "'",
        "kprobe:f{",
        "(int)",
        "table t {",
        "/",
        "a,",
        "(a*",
        "/*",
        "\"",
        "x y;",
        "x{a",
        "#\n",
        "while 1 {",
        "sizeof(",
    ] {
        for front in ["", "BEGIN {", "BEGIN { $x = ", "BEGIN /"] {
            let text = format!("{front}{}", piece.repeat(8_000 / piece.len()));
            try_all(&text);
        }
    }
    let limit = if cfg!(debug_assertions) { 300 } else { 100 };
    assert!(
        begin.elapsed() < Duration::from_secs(limit),
        "{:?}",
        begin.elapsed()
    );
}
