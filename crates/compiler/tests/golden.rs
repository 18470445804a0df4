//! Golden files: sections of input and expected outcome. `BLESS=1` rewrites the outcomes.
//!
//! A file is a list of cases. A case begins with `=== MODE title`, then its input, then `---` and what comes out.

#![allow(clippy::unwrap_used, reason = "a test")]

mod dump;
mod kernel;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Style, has_errors, render};
use kestrel_compiler::lang::expand::{Files, ImportedText, Inputs, expand};
use kestrel_compiler::lang::format::format;
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

/// What a script expands to; its first line may be `// ARGUMENTS`.
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
    let mut out = dump::syntax::script(&expanded.script);
    for definition in &expanded.definitions {
        out += &dump::syntax::definition(definition);
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

/// The house's own form of a script, which means the same and stays as it is.
fn formatted(mode: &str, input: &str) -> String {
    assert_eq!(mode, "script");
    let tidy = match format(input) {
        Ok(tidy) => tidy,
        Err(found) => return render(&found, "<script>", input, Style::default()),
    };
    let tree = |text: &str| {
        let (script, found) = parse_script(text);
        assert!(!has_errors(&found), "{text}: {found:?}");
        dump::syntax::script(&script)
    };
    assert_eq!(tree(input), tree(&tidy), "{tidy}");
    assert_eq!(format(&tidy).ok().as_ref(), Some(&tidy));
    tidy
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
fn expansion() {
    golden("expand.txt", expanded);
}

#[test]
fn form() {
    golden("format.txt", formatted);
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
