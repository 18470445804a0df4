//! Any text as an event or a script: parsed, expanded with what it imports (itself), its types laid out, checked for
//! the events of a miniature kernel, and what is wrong with it shown.

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::Context;
use kestrel_compiler::definition::{constant, overlay};
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Diagnostic, Style, render};
use kestrel_compiler::lang::expand::{Files, ImportedText, Inputs, expand};
use kestrel_compiler::lang::{library, parse_events, parse_expression, parse_script};
use std::sync::LazyLock;

// The compiler's own tests speak of the same kernel.
#[path = "../../../crates/compiler/tests/kernel/mod.rs"]
mod kernel;

static EVENTS: LazyLock<Vec<Context>> = LazyLock::new(kernel::arbitrary);

/// Names of the library's macros: a text without any of them needs no library, which takes longer to read than most texts.
static MACROS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let lines = library::TEXTS.iter().flat_map(|(_, text)| text.lines());
    let named = lines.filter_map(|line| line.strip_prefix("macro ")?.split('(').next());
    named.collect()
});

fn show(found: &[Diagnostic], text: &str) {
    render(found, "<event>", text, Style { colour: true });
    for diagnostic in found {
        let end = diagnostic.span.end as usize;
        assert!(end <= text.len().max(2), "{diagnostic:?}");
    }
}

/// Imports and includes of the text itself, under three names.
struct Itself<'a>(&'a str);

impl Files for Itself<'_> {
    fn import(&self, path: &str, _: &str) -> Result<Vec<ImportedText>, String> {
        let name = ["a.bt", "b.bt", "c.h"][path.len() % 3].to_owned();
        let text = self.0.to_owned();
        Ok(vec![ImportedText { name, text }])
    }

    fn header(&self, path: &str, own: bool, from: &str) -> Result<Option<ImportedText>, String> {
        match own {
            true => Ok(self.import(path, from)?.pop()),
            false => Ok(None),
        }
    }
}

/// All that happens to a script before its types are known.
fn expanded(text: &str) {
    let positional = ["7".to_owned(), "text".to_owned()];
    let inputs = Inputs {
        files: &Itself(text),
        positional: &positional,
        named: &[("x".to_owned(), Some("-1".to_owned())), ("y".to_owned(), None)],
        library: match MACROS.iter().any(|name| text.contains(name)) {
            true => library::TEXTS,
            false => &[],
        },
        ..Inputs::default()
    };
    let expanded = expand("<script>", text, Config::default(), &inputs);
    expanded.sources.render(&expanded.found, Style::default());
    let (_, found) = overlay(&expanded.definitions, None, &constant);
    expanded.sources.render(&found, Style::default());
}

/// Does all of it: nothing may panic, or take long.
pub(crate) fn at(text: &str) {
    expanded(text);
    show(&parse_script(text).1, text);
    show(&parse_expression(text).1, text);
    let (probe, found) = parse_events(text);
    show(&found, text);
    for context in &*EVENTS {
        let (_, found) = check(&probe, context, true, &mut Globals::default());
        render(&found, "<event>", text, Style::default());
    }
}
