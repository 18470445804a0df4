//! Any text as an event or a script: parsed, checked for the events of a miniature kernel, and
//! what is wrong with it shown.
#![no_main]

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::diag::{Diagnostic, Style, render};
use kestrel_compiler::lang::{parse_events, parse_expression, parse_script};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

// The compiler's own tests speak of the same kernel.
#[path = "../../crates/compiler/tests/kernel/mod.rs"]
mod kernel;

static EVENTS: LazyLock<Vec<Context>> = LazyLock::new(|| {
    vec![
        kernel::switch(),
        kernel::kprobe(),
        kernel::entry(),
        kernel::untyped(),
        kernel::kretprobe(),
        kernel::odd(),
    ]
});

fn show(found: &[Diagnostic], text: &str) {
    render(found, "<event>", text, Style { colour: true });
    for diagnostic in found {
        let end = diagnostic.span.end as usize;
        assert!(end <= text.len().max(2), "{diagnostic:?}");
    }
}

fuzz_target!(|text: &str| {
    show(&parse_script(text).1, text);
    show(&parse_expression(text).1, text);
    let (probe, found) = parse_events(text);
    show(&found, text);
    for context in &*EVENTS {
        let (_, found) = check(&probe, context, true, &mut Globals::default());
        render(&found, "<event>", text, Style::default());
    }
});
