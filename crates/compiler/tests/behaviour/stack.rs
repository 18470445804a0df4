//! Stacks, and copies of them in pieces.

use crate::support::run::{Bench, Seen};
use crate::support::tree::*;
use crate::{USER, text};
use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::check::tree::*;
use kestrel_compiler::context::{Context, Dispatchers};
use kestrel_trace::layout::{FieldType, Space};

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

/// Which functions of the kernel call a tracepoint's program depends on what else is attached: a stack has none of them.
#[test]
fn a_stack_begins_where_the_tracepoint_is() {
    const CALL: u64 = 0xffff_ffff_8141_5880;
    const ITERATE: u64 = 0xffff_ffff_8141_54e0;
    let of = Context {
        dispatchers: Dispatchers {
            call: Some(CALL..CALL + 0x30),
            iterate: Some(ITERATE..ITERATE + 0x40),
        },
        ..context()
    };
    let max = 4;
    let field = FieldType::Stack {
        space: Space::Kernel,
        max,
    };
    let body = vec![record(vec![("kstack", field, stack(Space::Kernel, max))])];
    let found = |of: &Context, frames: &[u64]| {
        let mut bench = Bench::new(&probe(None, body.clone()), of);
        bench.machine.environment.kernel_stack = [&[0xb, 0xf], frames].concat();
        bench.run(&[]).row().get("kstack").clone()
    };
    let whole = Seen::Stack(vec![1, 2, 3, 4]);
    for frames in [&[][..], &[CALL + 12], &[ITERATE + 49], &[CALL + 12, ITERATE + 49]] {
        assert_eq!(
            found(&of, &[frames, &[1, 2, 3, 4, 5]].concat()),
            whole,
            "{frames:x?}"
        );
    }
    // Only there and in this order; what ends there lies outside.
    for frame in [CALL + 0x30, CALL - 1, ITERATE + 0x40, ITERATE - 1] {
        assert_eq!(found(&of, &[frame, 1, 2, 3]), Seen::Stack(vec![frame, 1, 2, 3]));
    }
    assert_eq!(found(&of, &[ITERATE, CALL, 1, 2]), Seen::Stack(vec![CALL, 1, 2]));
    assert_eq!(found(&of, &[CALL]), Seen::Stack(vec![]));
    // Where it is not known which frames they are, they are kept.
    assert_eq!(found(&context(), &[CALL, 1]), Seen::Stack(vec![CALL, 1]));
}

/// The process's registers and so many words of its stack are there; `bytes` of them are asked for, of which the record has room for 600.
fn copied_of(words: usize, bytes: u32) -> Vec<u64> {
    copied_at(0x40_1000, words, bytes)
}

/// The same, with an instruction pointer of the process.
fn copied_at(ip: u64, words: usize, bytes: u32) -> Vec<u64> {
    const REGISTERS: u64 = 0xffff_c900_0000_3f58;
    let max = 600;
    let copy = ExprKind::StackCopy { bytes };
    let field = ("ustack", FieldType::StackCopy { max, shown: None }, expr(copy));
    let mut bench = Bench::new(&probe(None, vec![record(vec![field])]), &context());
    let mut registers = [0_u64; 21];
    (registers[4], registers[16], registers[19]) = (0xb, ip, USER);
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
fn stack_copies_longer_than_a_record_come_in_pieces() {
    // The readable part of a stack ends with a page of memory.
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
    assert_eq!(copied(10), whole(0), "less than a piece: where it is, is known");
    assert_eq!(copied(0), whole(0), "a page that was not touched yet");
    assert!(
        copied_at(0, 0, 600).is_empty(),
        "as a thread of the kernel has it"
    );
}
