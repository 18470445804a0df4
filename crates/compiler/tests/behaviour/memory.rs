//! Memory that is read: integers, bit fields, strings, what cannot be read.

use crate::support::bump::Bump;
use crate::support::run::{Bench, Seen};
use crate::support::tree::*;
use crate::{KERNEL, USER, text};
use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::check::tree::*;
use kestrel_compiler::failures::Failure;
use kestrel_compiler::lang::ast::Span;
use kestrel_trace::layout::{FieldType, Space};

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
        let text = |text: &str| Seen::String(text.to_owned());
        assert_eq!(seen, [Seen::Fault, text(""), text(cut)], "{max}");
    }
}

#[test]
fn memory_has_all_its_bytes_up_to_the_end_of_the_mapping() {
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
        assert_eq!(row.get("m"), &Seen::String(expected.to_owned()), "{length}");
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

/// A buffer of a system call has a length and no NUL; behind it there may be nothing.
#[test]
fn strings_of_a_length_are_read_no_further() {
    let of = |max| string_of(arg(0), Space::User, max, arg(1));
    let body = vec![record(vec![
        ("long", FieldType::String { max: 255 }, of(255)),
        ("short", FieldType::String { max: 5 }, of(5)),
        ("hello", int(1, false), is_string(of(64), "hello")),
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
        // A failure without room for its place has no time either.
        assert_eq!(failure.first > 0, failure.place.is_some());
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
