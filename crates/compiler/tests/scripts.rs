//! Whole scripts: their trees, what they expand to, and the house's own form of them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod cases;
#[path = "dump/syntax.rs"]
mod syntax;

use cases::golden;
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Style, has_errors, render};
use kestrel_compiler::lang::expand::{Files, ImportedText, Inputs, expand};
use kestrel_compiler::lang::format::format;
use kestrel_compiler::lang::parse_script;

/// The files that the scripts below may take in.
struct InMemory;

const FILES: &[(&str, &str)] = &[
    (
        "greet.bt",
        "import \"deep.bt\"; macro greet(x) { print((\"hello\", x)); }\nbegin { greet(1); }",
    ),
    (
        "deep.bt",
        "import \"greet.bt\"; let @deep = hash(1);\nbegin { @deep = LIMIT; }",
    ),
    ("wrong.bt", "config = { max_strlen = 3 } begin { $x = ; }"),
    (
        "own.h",
        "#ifndef OWN\n#define OWN 1\n#define LIMIT (3 + MORE)\n#include \"more.h\"\nextern int f(struct own *x);\nstruct own *g(int x);\nstatic inline int h(int x) { return x; }\nstruct own { int a; };\n#endif",
    ),
    ("more.h", "#define MORE 4\n"),
    ("code.bpf.c", "int f(int x) { return x; }"),
];

impl Files for InMemory {
    fn import(&self, path: &str, _: &str) -> Result<Vec<ImportedText>, String> {
        match self.header(path, true, "")? {
            Some(text) => Ok(vec![text]),
            None => Err("there is no such file".to_owned()),
        }
    }

    fn header(&self, path: &str, own: bool, _: &str) -> Result<Option<ImportedText>, String> {
        let found = FILES.iter().find(|(name, _)| own && *name == path);
        Ok(found.map(|(name, text)| ImportedText {
            name: (*name).to_owned(),
            text: (*text).to_owned(),
        }))
    }
}

/// Expansion of a script; its first line may be `// ARGUMENTS`.
fn expanded(mode: &str, input: &str) -> String {
    assert_eq!(mode, "expand");
    let arguments = input.lines().next().and_then(|line| line.strip_prefix("// "));
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    for argument in arguments.unwrap_or_default().split_whitespace() {
        match argument.strip_prefix("--").map(|option| option.split_once('=')) {
            None => positional.push(argument.to_owned()),
            Some(None) => named.push((argument[2..].to_owned(), None)),
            Some(Some((name, value))) => named.push((name.to_owned(), Some(value.to_owned()))),
        }
    }
    let inputs = Inputs {
        files: &InMemory,
        defined: &[("BPFTRACE_HAVE_BTF", "1")],
        positional: &positional,
        named: &named,
        library: &[(
            "<library>",
            "macro twice(x) { x + x } macro own() { twice(cpu()) } macro cpu() { 7 }",
        )],
    };
    let expanded = expand("<script>", input, Config::default(), &inputs);
    let mut out = syntax::script(&expanded.script);
    for definition in &expanded.definitions {
        out += &syntax::definition(definition);
    }
    for option in &expanded.options {
        out += &format!("option {option:?}\n");
    }
    for name in &expanded.unknown {
        out += &format!("unknown option {name}\n");
    }
    for name in &expanded.headers {
        out += &format!("header {name}\n");
    }
    out + &expanded.sources.render(&expanded.found, Style::default())
}

/// Our standard form of a script, which means the same and is formatted to itself.
fn formatted(mode: &str, input: &str) -> String {
    assert_eq!(mode, "script");
    let tidy = match format(input) {
        Ok(tidy) => tidy,
        Err(found) => return render(&found, "<script>", input, Style::default()),
    };
    let tree = |text: &str| {
        let (script, found) = parse_script(text);
        assert!(!has_errors(&found), "{text}: {found:?}");
        // A point and an arrow are the same.
        syntax::script(&script).replace("(-> ", "(. ")
    };
    assert_eq!(tree(input), tree(&tidy), "{tidy}");
    assert_eq!(format(&tidy).ok().as_ref(), Some(&tidy));
    tidy
}

/// The tree of a script.
fn parsed(mode: &str, input: &str) -> String {
    assert_eq!(mode, "script");
    let (script, found) = parse_script(input);
    syntax::script(&script) + &render(&found, "<expression>", input, Style::default())
}

#[test]
fn trees() {
    golden("scripts.txt", parsed);
}

#[test]
fn expansion() {
    golden("expand.txt", expanded);
}

#[test]
fn form() {
    golden("format.txt", formatted);
}
