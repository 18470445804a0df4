//! Comparison of strings, with each other and with patterns.

use crate::KERNEL;
use crate::support::run::Bench;
use crate::support::tree::*;
use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::check::tree::*;
use kestrel_compiler::lang::glob::Glob;
use kestrel_trace::layout::Space;

#[test]
fn strings_compare_up_to_their_nul() {
    let cases = [
        ("worker", true),
        ("work", false),
        ("workers", false),
        ("", false),
        ("workes", false),
    ];
    let from_memory = string(arg(0), Space::Kernel, 32);
    for (constant, expected) in cases {
        for operand in [
            expr(ExprKind::Comm),
            from_memory.clone(),
            bytes(arg(0), 0, 16, Access::Kernel),
        ] {
            let predicate = is_string(operand.clone(), constant);
            let body = vec![record(vec![("x", int(1, false), num(1))])];
            let mut bench = Bench::new(&probe(Some(predicate), body), &context());
            bench
                .machine
                .add_memory(Memory::Kernel, KERNEL, b"worker\0garbage\0\0\0\0");
            let rows = bench.run(&[KERNEL]).rows();
            assert_eq!(!rows.is_empty(), expected, "{operand:?} == {constant:?}");
        }
    }
}

#[test]
fn strings_in_memory_compare_with_each_other() {
    let cases = [
        ("same", "same", true),
        ("same", "some", false),
        ("a", "ab", false),
        ("", "", true),
    ];
    for (left, right, expected) in cases {
        for negated in [false, true] {
            let predicate = expr(ExprKind::StringEqual {
                left: Box::new(string(arg(0), Space::Kernel, 15)),
                right: Box::new(bytes(arg(0), 32, 16, Access::Kernel)),
                bytes: 16,
                negated,
            });
            let body = vec![record(vec![("x", int(1, false), num(1))])];
            let mut bench = Bench::new(&probe(Some(predicate), body), &context());
            let mut memory = [0xffu8; 48];
            for (at, text) in [(0, left), (32, right)] {
                memory[at..at + text.len()].copy_from_slice(text.as_bytes());
                memory[at + text.len()] = 0;
            }
            bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
            let rows = bench.run(&[KERNEL]).rows();
            assert_eq!(!rows.is_empty(), expected != negated, "{left:?} == {right:?}");
        }
    }
}

#[test]
fn strings_meet_patterns_as_the_pattern_itself_says() {
    let patterns = [
        "k*",
        "*sh",
        "*a*b*",
        "?a?h",
        "[a-c]*[!0-9]",
        "*",
        "",
        "bash",
        "k*worker/[0-9]*",
        "*\\**",
        "[!a]",
    ];
    let strings: [&[u8]; 11] = [
        b"kworker/0:1",
        b"bash",
        b"ksh",
        b"",
        b"a",
        b"xaxbx",
        b"dash",
        b"c9",
        b"a*b",
        b"\xff\x80",
        b"0123456789abcdef",
    ];
    for pattern in patterns {
        let glob = Glob::parse(pattern).unwrap();
        for operand in [
            bytes(arg(0), 0, 16, Access::Kernel),
            string(arg(0), Space::Kernel, 15),
        ] {
            let predicate = expr(ExprKind::StringGlob {
                text: Box::new(operand.clone()),
                glob: glob.clone(),
                bytes: 16.min(15 + u32::from(matches!(operand.kind, ExprKind::Bytes { .. }))),
            });
            let body = vec![record(vec![("x", int(1, false), num(1))])];
            for text in strings {
                let mut bench = Bench::new(&probe(Some(predicate.clone()), body.clone()), &context());
                let mut memory = [0u8; 24];
                memory[..text.len()].copy_from_slice(text);
                bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
                let seen = match operand.kind {
                    ExprKind::Bytes { .. } => text,
                    _ => &text[..text.len().min(15)],
                };
                let rows = bench.run(&[KERNEL]).rows();
                assert_eq!(!rows.is_empty(), glob.matches(seen), "{pattern} {text:?}");
            }
        }
    }
}
