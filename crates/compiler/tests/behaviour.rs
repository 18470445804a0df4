//! Generated programs run in the interpreter; what they recorded is read back by the trace crate's decoder.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::check::tree::*;
use kestrel_compiler::context::{EventNumber, Selector};
use kestrel_compiler::failures::Failure;
use kestrel_compiler::lang::ast::Span;
use kestrel_compiler::lang::glob::Glob;
use kestrel_trace::layout::{FieldType, Space};
use support::bump::Bump;
use support::run::{Bench, SELECTED, Seen};
use support::tree::*;

const KERNEL: u64 = 0xffff_8880_1000_0000;
const USER: u64 = 0x7f00_0000_1000;

fn text(size: u32) -> FieldType {
    FieldType::Text { size }
}

#[test]
fn a_record_carries_number_pid_tid_and_arguments() {
    let body = vec![record(vec![
        ("nr", int(8, true), arg(1)),
        ("regs", int(8, false), arg(0)),
    ])];
    let mut bench = Bench::new(&probe(None, body), &context());
    let row = bench.run(&[0xffff_ffff_0000_0001, -5i64 as u64]).row();
    assert_eq!((row.number, row.pid, row.tid), (7, 1200, 1234));
    assert_eq!(row.number("nr"), -5);
    assert_eq!(row.number("regs"), 0xffff_ffff_0000_0001);
}

#[test]
fn a_set_of_events_is_told_apart_by_a_value() {
    let mut context = context();
    context.number = EventNumber::Selected { first: 1, stride: 1 };
    context.selector = Some(Selector {
        value: "id".to_owned(),
        map: "numbers".to_owned(),
    });
    let mut checked = probe(None, vec![record(vec![("x", int(8, false), arg(0))])]);
    checked.selector = Some(arg(1));
    let mut bench = Bench::new(&checked, &context);
    let numbers = bench.numbers.unwrap();
    bench
        .machine
        .set_value(numbers, &5u32.to_le_bytes(), 0, &SELECTED.to_le_bytes());
    // Wanted, known but not wanted, beyond the map.
    let row = bench.run(&[9, 5]).row();
    assert_eq!((row.number, row.number("x")), (SELECTED, 9));
    assert!(bench.run(&[9, 4]).rows().is_empty());
    assert!(bench.run(&[9, 16]).rows().is_empty());
}

#[test]
fn predicates_decide_and_share_the_identity_call() {
    let is = |n| eq(pid(), num(n));
    let cases = [
        (is(1200), true),
        (is(1), false),
        (not(is(1)), true),
        (and(is(1200), eq(arg(0), num(3))), true),
        (and(is(1200), eq(arg(0), num(4))), false),
        (or(is(1), eq(arg(0), num(3))), true),
        (or(is(1), eq(arg(0), num(4))), false),
        (
            or(and(is(1), is(1200)), and(is(1200), not(eq(arg(0), num(9))))),
            true,
        ),
        (num(0), false),
        (num(2), true),
    ];
    for (predicate, expected) in cases {
        let body = vec![record(vec![("x", int(4, false), arg(0))])];
        let mut bench = Bench::new(&probe(Some(predicate.clone()), body), &context());
        let rows = bench.run(&[3]).rows();
        assert_eq!(!rows.is_empty(), expected, "{predicate:?}");
    }
    let body = vec![record(vec![("x", int(4, false), arg(0))])];
    let bench = Bench::new(&probe(Some(is(1200)), body), &context());
    assert_eq!(
        bench.listing().matches("call bpf_get_current_pid_tgid").count(),
        1
    );
}

#[test]
fn integers_of_every_size_and_sign_from_every_memory() {
    let pattern: [u8; 16] = [
        0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8, 0x19, 0x2a, 0x3b, 0x4c, 0x5d, 0x6e, 0x7f, 0x01,
    ];
    for access in [Access::Kernel, Access::User, Access::Context, Access::Direct] {
        for size in [1u8, 2, 4, 8] {
            for signed in [false, true] {
                for offset in [0, 8] {
                    let address = match access {
                        Access::Context => ctx(),
                        _ => arg(0),
                    };
                    let shift = if access == Access::Context { 8 } else { 0 };
                    let value = load(address, offset + shift, size, signed, access);
                    // The field is wider than the load, so its extension shows.
                    let wide = binary(BinaryOp::Add, value.clone(), num(1));
                    let body = vec![record(vec![
                        ("x", int(size, signed), value),
                        ("y", int(8, true), wide),
                    ])];
                    let mut bench = Bench::new(&probe(None, body), &context());
                    bench.machine.direct_kernel_reads = access == Access::Direct;
                    let (space, at) = match access {
                        Access::User => (Memory::User, USER),
                        _ => (Memory::Kernel, KERNEL),
                    };
                    bench.machine.add_memory(space, at, &pattern);
                    let mut words = at.to_le_bytes().to_vec();
                    words.extend(pattern);
                    let row = bench.run_bytes(&words).row();
                    let bytes = &pattern[offset as usize..][..size.into()];
                    let expected = number(bytes, signed);
                    assert_eq!(row.number("x"), expected, "{access:?} {size} {signed} {offset}");
                    let sum = (expected as i64).wrapping_add(1);
                    assert_eq!(row.number("y"), sum.into(), "{access:?} {size} {signed} {offset}");
                }
            }
        }
    }
}

/// Little-endian bytes as a number, computed without shifts by register widths.
fn number(bytes: &[u8], signed: bool) -> i128 {
    let unsigned = bytes.iter().rev().fold(0i128, |n, b| n * 256 + i128::from(*b));
    let limit = 1i128 << (bytes.len() * 8);
    if signed && unsigned >= limit / 2 {
        unsigned - limit
    } else {
        unsigned
    }
}

#[test]
fn bit_fields_are_cut_out() {
    let field = |shift, bits, signed| {
        expr(ExprKind::BitField {
            value: Box::new(arg(0)),
            shift,
            bits,
            signed,
        })
    };
    let body = vec![record(vec![
        ("a", int(1, false), field(3, 5, false)),
        ("b", int(1, true), field(3, 5, true)),
        ("c", int(8, false), field(0, 64, false)),
        ("d", int(8, true), field(63, 1, true)),
    ])];
    let mut bench = Bench::new(&probe(None, body), &context());
    let row = bench.run(&[0x8000_0000_0000_00b8]).row();
    assert_eq!(row.number("a"), 0x17);
    assert_eq!(row.number("b"), 0x17 - 32);
    assert_eq!(row.number("c"), 0x8000_0000_0000_00b8);
    assert_eq!(row.number("d"), -1);
}

#[test]
fn unreadable_memory_counts_as_zero_and_strings_are_marked() {
    let body = vec![record(vec![
        ("x", int(4, true), load(arg(0), 0, 4, true, Access::Kernel)),
        ("t", text(8), bytes(arg(0), 0, 8, Access::User)),
        (
            "s",
            FieldType::String { max: 20 },
            string(arg(0), Space::Kernel, 20),
        ),
    ])];
    let mut bench = Bench::new(&probe(None, body), &context());
    let row = bench.run(&[0xdead_0000]).row();
    assert_eq!((row.number("x"), row.text("t")), (0, ""));
    assert_eq!(row.get("s"), &Seen::Fault);
    for max in 1..=12 {
        let field = ("s", FieldType::String { max }, string(arg(0), Space::User, max));
        let mut bench = Bench::new(&probe(None, vec![record(vec![field])]), &context());
        bench.machine.add_memory(Memory::User, USER, b"\0");
        bench.machine.add_memory(Memory::User, USER + 8, b"(fault)\0");
        let seen = [0xdead_0000, USER, USER + 8].map(|at| bench.run(&[at]).row().get("s").clone());
        let cut = &"(fault)"[..(max as usize).min(7)];
        let text = |text: &str| Seen::Text(text.to_owned());
        assert_eq!(seen, [Seen::Fault, text(""), text(cut)], "{max}");
    }
}

#[test]
fn memory_has_all_its_bytes_up_to_what_is_there() {
    let field = ("m", FieldType::Bytes { max: 9 }, memory(arg(0), 9, arg(1)));
    let mut bench = Bench::new(&probe(None, vec![record(vec![field])]), &context());
    bench.machine.add_memory(Memory::User, USER, b"a\0b\0cdefghijkl");
    // The last bytes of a page, behind which there is none.
    let last = USER + 0x1_0ffc - USER % 0x1000;
    bench.machine.add_memory(Memory::User, last, b"\0end");
    for (address, length, expected) in [
        (USER, 4, "a\0b\0"),
        (USER, 0, ""),
        (USER, 9, "a\0b\0cdefg"[..9].into()),
        (USER, 1000, "a\0b\0cdefg"[..9].into()),
        (USER, u64::MAX, "a\0b\0cdefg"[..9].into()),
        (last, 4, "\0end"),
        (last, 8, "\0end"),
    ] {
        let row = bench.run(&[address, length]).row();
        assert_eq!(row.get("m"), &Seen::Text(expected.to_owned()), "{length}");
    }
    let row = bench.run(&[0xdead_0000, 4]).row();
    assert_eq!(row.get("m"), &Seen::Fault);
}

#[test]
fn strings_are_cut_at_their_maximum_and_records_stay_aligned() {
    let body = vec![record(vec![
        (
            "k",
            FieldType::String { max: 5 },
            string(arg(0), Space::Kernel, 5),
        ),
        ("n", int(2, false), arg(2)),
        (
            "u",
            FieldType::String { max: 64 },
            string(arg(1), Space::User, 64),
        ),
    ])];
    let mut bench = Bench::new(&probe(None, body), &context());
    bench.machine.add_memory(Memory::Kernel, KERNEL, b"kworker/0:1\0");
    bench.machine.add_memory(Memory::Kernel, KERNEL + 64, b"abc\0");
    bench
        .machine
        .add_memory(Memory::User, USER, b"/etc/ld.so.cache\0");
    bench.machine.add_memory(Memory::User, USER + 64, b"\0");
    bench.run(&[KERNEL, USER, 1]).run(&[KERNEL + 64, USER + 64, 2]);
    let rows = bench.rows();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].text("k"), rows[0].text("u")),
        ("kwork", "/etc/ld.so.cache")
    );
    assert_eq!((rows[1].text("k"), rows[1].text("u")), ("abc", ""));
    assert_eq!((rows[0].number("n"), rows[1].number("n")), (1, 2));
}

/// What a system call is given has a length and no NUL; behind it there may be nothing.
#[test]
fn strings_of_a_length_are_read_no_further() {
    let of = |max| string_of(arg(0), Space::User, max, arg(1));
    let body = vec![record(vec![
        ("long", FieldType::String { max: 255 }, of(255)),
        ("short", FieldType::String { max: 5 }, of(5)),
        ("hello", int(1, false), is_text(of(64), "hello")),
    ])];
    let mut bench = Bench::new(&probe(None, body), &context());
    bench.machine.add_memory(Memory::User, USER, b"hello world");
    bench.machine.add_memory(Memory::User, USER + 256, b"hello\0a=1");
    for (address, length, long, short, equal) in [
        (USER, 11, "hello world", "hello", 0),
        (USER, 7, "hello w", "hello", 0),
        (USER, 5, "hello", "hello", 1),
        (USER, 4, "hell", "hell", 0),
        (USER, 0, "", "", 0),
        (USER + 256, 9, "hello", "hello", 1),
        (USER + 262, 3, "a=1", "a=1", 0),
        // Nothing is there, and nothing is read.
        (1, 0, "", "", 0),
    ] {
        let row = bench.run(&[address, length]).row();
        let found = (row.text("long"), row.text("short"), row.number("hello"));
        assert_eq!(found, (long, short, equal), "{address:#x} {length}");
    }
    // A page that is not there is no empty text, wherever in the text it begins; a length beyond the longest text is that.
    for (address, length) in [(USER, 12), (1, 1), (USER, u64::MAX)] {
        let row = bench.run(&[address, length]).row();
        assert_eq!(*row.get("long"), Seen::Fault, "{address:#x} {length}");
        assert_eq!(row.number("hello"), 0);
    }
    let whole = [b'x'; 300];
    bench.machine.add_memory(Memory::User, USER + 4096, &whole[..255]);
    let row = bench.run(&[USER + 4096, 300]).row();
    assert_eq!((row.text("long").len(), row.text("short")), (255, "xxxxx"));
}

#[test]
fn stacks_and_strings_share_a_record() {
    let stacks = |max| {
        vec![record(vec![
            (
                "kstack",
                FieldType::Stack {
                    space: Space::Kernel,
                    max,
                },
                stack(Space::Kernel, max),
            ),
            ("comm", text(16), expr(ExprKind::Comm)),
            (
                "ustack",
                FieldType::Stack {
                    space: Space::User,
                    max,
                },
                stack(Space::User, max),
            ),
            (
                "s",
                FieldType::String { max: 30 },
                string(arg(0), Space::User, 30),
            ),
        ])]
    };
    // Small ones are staged in the frame, large ones in the scratch map.
    for max in [4, 127] {
        let mut bench = Bench::new(&probe(None, stacks(max)), &context());
        assert_eq!(bench.program.maps.len() == 2, max == 127, "{}", bench.listing());
        bench.machine.add_memory(Memory::User, USER, b"hello\0");
        // The program and the kernel's call of it come first on a raw tracepoint.
        bench.machine.environment.kernel_stack = vec![0xb, 0xf, 1, 2, 3];
        bench.machine.environment.user_stack = (0..300).collect();
        let row = bench.run(&[USER]).row();
        assert_eq!(*row.get("kstack"), Seen::Stack(vec![1, 2, 3]));
        assert_eq!(*row.get("ustack"), Seen::Stack((0..u64::from(max)).collect()));
        assert_eq!((row.text("comm"), row.text("s")), ("worker", "hello"));
        bench.machine.environment.kernel_stack.clear();
        let row = bench.run(&[0]).row();
        assert_eq!(*row.get("kstack"), Seen::Stack(vec![]));
        assert_eq!(*row.get("s"), Seen::Fault);
    }
}

/// The process's registers and so many words of its stack are there; `bytes` of them are asked for, of which the record has room for 600.
fn copied_of(words: usize, bytes: u32) -> Vec<u64> {
    const REGISTERS: u64 = 0xffff_c900_0000_3f58;
    let max = 600;
    let copy = ExprKind::StackCopy { bytes };
    let field = ("ustack", FieldType::StackCopy { max, shown: None }, expr(copy));
    let mut bench = Bench::new(&probe(None, vec![record(vec![field])]), &context());
    let mut registers = [0_u64; 21];
    (registers[4], registers[16], registers[19]) = (0xb, 0x40_1000, USER);
    let bytes: Vec<u8> = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
    bench.machine.add_memory(Memory::Kernel, REGISTERS, &bytes);
    bench.machine.direct_kernel_reads = true;
    let stack: Vec<u8> = (0..words as u64).flat_map(|word| word.to_le_bytes()).collect();
    if !stack.is_empty() {
        bench.machine.add_memory(Memory::User, USER, &stack);
    }
    match bench.run(&[]).row().get("ustack") {
        Seen::Stack(words) => words.clone(),
        other => panic!("{other:?}"),
    }
}

fn copied(words: usize) -> Vec<u64> {
    copied_of(words, 600)
}

#[test]
fn what_a_record_has_no_room_for_comes_in_pieces() {
    // What is there of a stack ends with a page of memory.
    let page = (4096 - USER as usize % 4096) / 8;
    for (there, bytes, wanted) in [
        (20_000, 8192, 1024),
        (20_000, 24_000, 3000),
        (20_000, 616, 77),
        (page + 512, 24_000, page + 512),
        (page, 8192, page),
    ] {
        let all: Vec<u64> = [0x40_1000, USER, 0xb]
            .into_iter()
            .chain(0..wanted as u64)
            .collect();
        assert_eq!(copied_of(there, bytes), all, "{there} {bytes}");
    }
    // A part of the record's own is missing already: there is nothing behind it.
    assert_eq!(copied_of(70, 8192).len(), 3 + 64);
}

#[test]
fn a_stack_is_copied_as_far_as_it_is_there() {
    let registers = [0x40_1000, USER, 0xb];
    let whole = |words: u64| registers.into_iter().chain(0..words).collect::<Vec<_>>();
    assert_eq!(copied(75), whole(75), "all that was asked for");
    assert_eq!(copied(80), whole(75), "and no more");
    assert_eq!(copied(70), whole(64), "two pieces of three");
    assert_eq!(copied(10), whole(0)[..0], "less than a piece");
    assert_eq!(copied(0), whole(0)[..0], "as a thread of the kernel has it");
}

#[test]
fn texts_compare_up_to_their_nul() {
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
            let predicate = is_text(operand.clone(), constant);
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
fn texts_in_memory_compare_with_each_other() {
    let cases = [
        ("same", "same", true),
        ("same", "some", false),
        ("a", "ab", false),
        ("", "", true),
    ];
    for (left, right, expected) in cases {
        for negated in [false, true] {
            let predicate = expr(ExprKind::TextEqual {
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
fn texts_meet_patterns_as_the_pattern_itself_says() {
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
    let texts: [&[u8]; 11] = [
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
            let predicate = expr(ExprKind::TextGlob {
                text: Box::new(operand.clone()),
                glob: glob.clone(),
                bytes: 16.min(15 + u32::from(matches!(operand.kind, ExprKind::Bytes { .. }))),
            });
            let body = vec![record(vec![("x", int(1, false), num(1))])];
            for text in texts {
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

#[test]
fn more_live_values_than_registers() {
    let value = |i: u64| {
        binary(
            BinaryOp::Multiply,
            load(arg(0), i as i32 * 8, 8, false, Access::Kernel),
            num(i + 1),
        )
    };
    let names: Vec<String> = (0..20).map(|i| format!("f{i}")).collect();
    let fields = names
        .iter()
        .zip(0..)
        .map(|(name, i)| (name.as_str(), int(8, false), value(i)));
    let sum = (0..20)
        .map(value)
        .reduce(|a, b| binary(BinaryOp::Add, a, b))
        .expect("some");
    let nested = (0..20)
        .rev()
        .map(value)
        .reduce(|a, b| binary(BinaryOp::Subtract, b, a))
        .expect("some");
    let mut fields: Vec<_> = fields.collect();
    fields.push(("sum", int(8, false), sum));
    fields.push(("nested", int(8, false), nested));
    let mut bench = Bench::new(&probe(None, vec![record(fields)]), &context());
    let memory: Vec<u8> = (0..20u64).flat_map(|i| (i * 1000 + 7).to_le_bytes()).collect();
    bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
    let row = bench.run(&[KERNEL]).row();
    let expected = |i: u64| (i * 1000 + 7) * (i + 1);
    for (name, i) in names.iter().zip(0..) {
        assert_eq!(row.number(name), expected(i).into(), "{name}");
    }
    assert_eq!(row.number("sum"), (0..20).map(expected).sum::<u64>().into());
    let nested = (0..20)
        .rev()
        .map(expected)
        .reduce(|a, b| b.wrapping_sub(a))
        .expect("some");
    assert_eq!(row.number("nested"), nested.into());
}

#[test]
fn arrays_and_large_bytes() {
    let array = FieldType::Array {
        element: Box::new(int(4, false)),
        count: 3,
    };
    let body = vec![record(vec![
        ("big", text(100), bytes(arg(0), 0, 100, Access::Kernel)),
        ("small", text(13), bytes(arg(0), 1, 13, Access::Kernel)),
        ("inside", text(7), bytes(ctx(), 9, 7, Access::Context)),
        ("known", text(10), expr(ExprKind::Text(b"constant\0\0".to_vec()))),
        ("after", int(4, false), num(0x0102_0304)),
    ])];
    assert_eq!(array.tail_max(), 0);
    let mut bench = Bench::new(&probe(None, body), &context());
    let memory: Vec<u8> = (0..100).map(|i| b'a' + i % 26).collect();
    bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
    let mut words = KERNEL.to_le_bytes().to_vec();
    words.extend(b"_context");
    let row = bench.run_bytes(&words).row();
    assert_eq!(row.text("big").as_bytes(), memory);
    assert_eq!(
        (row.text("small"), row.text("inside"), row.text("known")),
        ("bcdefghijklmn", "context", "constant")
    );
    assert_eq!(row.number("after"), 0x0102_0304);
}

#[test]
fn variables_branches_and_returns() {
    let variable = VariableId(0);
    let at = |kind| Statement {
        kind,
        span: Default::default(),
    };
    let get = || expr(ExprKind::Variable(variable));
    let set = |value| at(StatementKind::Set { variable, value });
    let greater = |n| compare(CompareOp::Greater, true, arg(0), num(n));
    let body = vec![
        at(StatementKind::If {
            condition: greater(10),
            then: vec![set(num(100)), set(binary(BinaryOp::Add, get(), arg(0)))],
            otherwise: vec![at(StatementKind::If {
                condition: greater(5),
                then: vec![at(StatementKind::Return)],
                otherwise: vec![],
            })],
        }),
        record(vec![("x", int(8, true), get())]),
    ];
    let mut tree = probe(None, body);
    tree.variables.push(Variable {
        name: "x".to_owned(),
        ty: Type::I64,
        size: 8,
    });
    let mut bench = Bench::new(&tree, &context());
    assert_eq!(bench.run(&[11]).row().number("x"), 111);
    assert!(bench.run(&[7]).rows().is_empty());
    assert_eq!(bench.run(&[-3i64 as u64]).row().number("x"), 0);
}

#[test]
fn the_number_may_come_from_the_attachment() {
    let mut context = context();
    context.number = EventNumber::Cookie {
        first: 100,
        stride: 1,
    };
    let body = vec![record(vec![("x", int(8, false), arg(0))])];
    let mut bench = Bench::new(&probe(None, body), &context);
    bench.machine.environment.cookie = 21;
    let row = bench.run(&[5]).row();
    assert_eq!((row.number, row.number("x")), (121, 5));
}

#[test]
fn preemption_is_off_only_while_it_matters() {
    let mut context = context();
    context.preemptible = true;
    let sink = Bump {
        preemption_off: true,
        ..Bump::default()
    };
    let body = vec![record(vec![("x", int(8, false), arg(0))])];
    let tree = probe(Some(eq(arg(0), num(1))), body);
    let mut bench = Bench::with_sink(&tree, &context, sink);
    bench.run(&[0]);
    assert_eq!(bench.machine.preemption(), (0, 0));
    bench.run(&[1]);
    assert_eq!(bench.machine.preemption(), (1, 0));
    // Also where the sink refuses.
    for _ in 0..2000 {
        bench.run(&[1]);
    }
    assert_eq!(bench.machine.preemption(), (2001, 0));
    context.features.preempt_disable = false;
    let bench = Bench::with_sink(&tree, &context, sink);
    assert!(bench.program.uses.kfuncs.is_empty());
}

/// Each read that fails is counted at its place, those that have no room together; what is read is what it was without counting.
#[test]
fn failed_reads_are_counted_by_place() {
    let sink = Bump {
        failures: true,
        ..Bump::default()
    };
    let read = |start: u32, address: u64| {
        let mut read = load(num(address), 0, 8, false, Access::Kernel);
        read.span = Span {
            start,
            end: start + 1,
        };
        read
    };
    let fields = vec![
        ("a", int(8, false), read(10, 0x10)),
        ("b", int(8, false), read(20, KERNEL)),
        ("c", int(8, false), read(30, 0x20)),
        ("d", int(8, false), read(40, 0x30)),
    ];
    let mut bench = Bench::with_sink(&probe(None, vec![record(fields)]), &context(), sink);
    bench
        .machine
        .add_memory(Memory::Kernel, KERNEL, &7_u64.to_le_bytes());
    let rows = bench.run(&[0]).run(&[0]).rows();
    let values = ["a", "b", "c", "d"].map(|name| rows[1].number(name));
    assert_eq!(values, [0, 7, 0, 0]);
    let map = bench.failed.unwrap();
    let counted = bench.machine.keys(map).into_iter().filter_map(|key| {
        let failure = Failure::read(&key, &bench.machine.value(map, &key, 0)?)?;
        let place = failure.place.map(|span| span.start);
        Some((place, failure.helper.name(), failure.answer, failure.count))
    });
    let name = Some("probe_read_kernel");
    assert_eq!(
        counted.collect::<Vec<_>>(),
        [
            (None, None, 0, 2),
            (Some(10), name, -14, 2),
            (Some(30), name, -14, 2)
        ]
    );
}

#[test]
fn kernels_without_the_two_kinds_of_read() {
    let mut context = context();
    context.features.probe_read_kernel = false;
    let body = vec![record(vec![
        ("x", int(8, false), load(arg(0), 0, 8, false, Access::Kernel)),
        (
            "s",
            FieldType::String { max: 20 },
            string(arg(0), Space::User, 20),
        ),
    ])];
    let bench = Bench::new(&probe(None, body), &context);
    let numbers: Vec<u32> = bench.program.uses.helpers.iter().map(|h| h.0).collect();
    assert_eq!(numbers, [4, 14, 45]);
}

#[test]
fn a_record_too_large_for_the_sink_is_an_error() {
    let strings = |count: usize, max| {
        let names = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        ];
        let fields = names.iter().take(count);
        let fields = fields.map(|n| (*n, FieldType::String { max }, string(arg(0), Space::User, max)));
        probe(None, vec![record(fields.collect())])
    };
    let refused = kestrel_compiler::compile(&strings(14, 300), &context(), &Bump::default());
    assert!(refused.is_err_and(|e| e.to_string().contains("4248")));
    let tail = kestrel_compiler::compile(&strings(18, 512), &context(), &Bump::default());
    assert!(tail.is_err_and(|e| e.to_string().contains("at most")));
}

#[test]
fn records_of_different_fields_have_numbers_of_their_own() {
    let body = vec![
        record(vec![("x", int(8, false), arg(0))]),
        record(vec![
            (
                "s",
                FieldType::String { max: 9 },
                string(arg(1), Space::Kernel, 9),
            ),
            ("y", int(1, true), arg(0)),
        ]),
    ];
    let mut bench = Bench::new(&probe(None, body), &context());
    bench.machine.add_memory(Memory::Kernel, KERNEL, b"second\0");
    let rows = bench.run(&[0xfe, KERNEL]).rows();
    assert_eq!(rows.iter().map(|r| r.number).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(rows[0].number("x"), 0xfe);
    assert_eq!((rows[1].text("s"), rows[1].number("y")), ("second", -2));
}

#[test]
fn preemption_is_off_from_the_first_instruction_to_the_last_where_the_sink_asks_for_it() {
    let mut context = context();
    context.preemptible = true;
    let sink = Bump {
        preemption_off: true,
        whole: true,
        ..Bump::default()
    };
    let body = vec![record(vec![("x", int(8, false), arg(0))])];
    let tree = probe(Some(eq(arg(0), num(1))), body);
    let mut bench = Bench::with_sink(&tree, &context, sink);
    // The interpreter refuses an end with preemption or interrupts off; records do not switch it once more.
    bench.run(&[0]);
    assert_eq!(bench.machine.preemption(), (1, 0));
    assert_eq!(bench.run(&[1]).row().number("x"), 1);
    assert_eq!(bench.machine.preemption(), (2, 0));
    for _ in 0..2000 {
        bench.run(&[1]);
    }
    assert_eq!(bench.machine.preemption(), (2002, 0));
    let called: Vec<&str> = bench.program.uses.kfuncs.iter().map(String::as_str).collect();
    assert_eq!(
        called,
        [
            "bpf_local_irq_restore",
            "bpf_local_irq_save",
            "bpf_preempt_disable",
            "bpf_preempt_enable"
        ]
    );
}
