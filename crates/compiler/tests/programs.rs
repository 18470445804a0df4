//! From text to BPF: all texts that the checker accepts in its golden file compile, and some programs are listed whole.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
mod support;

use kestrel_compiler::Program;
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::context::{Context, EventNumber};
use kestrel_compiler::lang::parse_events;
use std::path::Path;
use support::bump::{self, Bump};

fn compile(mode: &str, text: &str) -> Program {
    let sink = Bump {
        preemption_off: true,
        ..Bump::default()
    };
    let mut globals = Globals::default();
    let name = match mode.strip_prefix("long-strings-") {
        Some(name) => {
            globals.max_strlen = Some(600);
            name
        }
        None => mode,
    };
    compile_with(&kernel::by_name(name), &mut globals, &sink, text)
}

fn compile_with(context: &Context, globals: &mut Globals, sink: &Bump, text: &str) -> Program {
    let (probe, _) = parse_events(&format!("e:x {text}"));
    let (checked, found) = check(&probe, context, true, globals);
    let checked = checked.unwrap_or_else(|| panic!("{text}: {found:?}"));
    match kestrel_compiler::compile(&checked, context, sink) {
        Ok(program) => program,
        Err(error) => panic!("{text}: {error} {error:?}"),
    }
}

#[test]
fn every_program_that_the_checker_accepts_compiles() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/check.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut compiled = 0;
    for case in text.split("=== ").skip(1) {
        let (title, body) = case.split_once('\n').unwrap();
        let input = body.split("\n---\n").next().unwrap();
        let mode = title.split(' ').next().unwrap();
        let program = compile(mode, input);
        assert!(program.code.insns.len() < 4096, "{title}");
        compiled += 1;
    }
    assert!(compiled > 20, "{compiled}");
}

#[test]
fn programs_shown_whole() {
    let cases = [
        ("switch", "all fields", ""),
        (
            "kprobe",
            "an argument of one process",
            "/pid == 42/ { record(arg2) }",
        ),
        (
            "kprobe",
            "names and a string",
            r#"/comm == "bash"/ { record(str(arg1, 16), cpu) }"#,
        ),
        (
            "kprobe",
            "a large stack",
            "/pid == 42/ { record(kstack(127), arg0) }",
        ),
        (
            "switch",
            "a walk",
            "/args.prev->pid == 42 && args.next->pid > 1/ { record(args.prev->parent->comm) }",
        ),
        (
            "kretprobe",
            "signed division",
            "{ record(x = (int64)retval / 10) }",
        ),
        ("entry", "only a predicate", "/pid == 1/ { }"),
    ];
    let mut shown = String::new();
    for (mode, title, text) in cases {
        let program = compile(mode, text);
        let listing = kestrel_bpf::text::listing(&program.code, &[bump::MAP, "scratch"]);
        shown += &format!(
            "=== {mode} {title}\n{text}\n--- intermediate\n{}",
            program.function
        );
        shown += &format!("--- BPF, {} instructions\n{listing}\n", program.code.insns.len());
    }
    testkit::golden("tests/golden/programs.txt", &shown);
}

#[test]
fn numbers_from_the_attachment_reach_every_kind_of_record() {
    let mut context = kernel::kprobe();
    context.number = EventNumber::Cookie { first: 1, stride: 2 };
    let text = "{ if (arg2 > 100) { record(pid) } else { record(arg2) } }";
    let program = compile_with(&context, &mut Globals::default(), &Bump::default(), text);
    assert_eq!(program.layouts.len(), 2);
    let listing = kestrel_bpf::text::listing(&program.code, &[bump::MAP]);
    assert_eq!(listing.matches("call bpf_get_attach_cookie").count(), 2);
}
