//! Metadata text: as it should look, and back again, for any layout.

use crate::sample;
use kestrel_trace::action::Action;
use kestrel_trace::ctf::metadata::{parse, text};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::info::{BufferInfo, BufferMode, ClockOffset, TraceInfo, Uuid};
use kestrel_trace::layout::{
    Base, Bits, Composite, CompositeKind, DateClock, FieldType, Frames, HeldStack, Layout, Named, Names,
    Space, StackMode,
};
use proptest::prelude::*;

#[test]
fn it_looks_as_it_should_and_comes_back() {
    let text = text(&sample::info()).unwrap();
    testkit::golden("tests/golden/metadata", &text);
    assert_eq!(parse(&text).unwrap(), sample::info());
}

#[test]
fn short_integers_in_words_of_their_own_come_back() {
    let mut info = sample::info();
    info.events = vec![sample::words()];
    let text = text(&info).unwrap();
    assert!(text.contains("size = 32; align = 64; signed = true"), "{text}");
    let back = parse(&text).unwrap();
    assert_eq!(back, info);
    let offsets: Vec<u32> = back.events[0]
        .layout
        .fields()
        .iter()
        .map(|f| f.offset())
        .collect();
    assert_eq!(offsets, [16, 24, 32, 40]);
    assert_eq!(back.events[0].layout.constant_size(), Some(48));
    let damaged = text
        .replace("int32_word_t _dfd", "int32_t _dfd")
        .replace("int32_word_t _flags", "int32_t _flags");
    assert!(parse(&damaged).is_err() || parse(&damaged).unwrap() != info);
}

#[test]
fn field_types_that_ctf_lacks_are_refused_by_name() {
    let three = FieldType::Integer {
        size: 3,
        signed: false,
        base: Base::Decimal,
    };
    let strings = FieldType::Array {
        element: Box::new(FieldType::String { max: 9 }),
        count: 2,
    };
    for (ty, why) in [(three, "size is not 1, 2, 4 or 8"), (strings, "variable length")] {
        let mut info = sample::info();
        info.events = vec![EventClass {
            id: EventId(1),
            name: "kprobe:x".into(),
            kind: "kprobe".into(),
            layout: Layout::new([("odd".to_owned(), ty)]),
            action: None,
            print: None,
        }];
        let error = text(&info).unwrap_err().to_string();
        assert!(
            error.contains("kprobe:x") && error.contains("odd") && error.contains(why),
            "{error}"
        );
    }
}

#[test]
fn two_events_of_one_number_are_refused() {
    let mut info = sample::info();
    info.events.push(sample::bare());
    let error = text(&info).unwrap_err().to_string();
    assert!(error.contains("two events have number 300"), "{error}");
}

#[test]
fn other_text_is_refused_with_its_line() {
    let good = text(&sample::info()).unwrap();
    let swapped = good.replace(
        "int32_t _prev_prio;\n        int32_t _next_pid;",
        "int32_t _next_pid;\n        int32_t _prev_prio;",
    );
    assert_ne!(swapped, good);
    let cases = [
        (
            good.replace("\"kestrel\"", "\"lttng-modules\""),
            "written by lttng-modules",
        ),
        (
            good.replace("trace_format = 1", "trace_format = 9"),
            "trace format 9",
        ),
        (
            good.replace("uint64_t content_size;", "uint32_t content_size;"),
            "packet.context",
        ),
        (
            good.replace("int32_t _prev_pid;", "string _prev_pid;"),
            "string is not a type",
        ),
        (
            good.replace("uint16_t __kstack_length", "uint16_t __kstack"),
            "do not lie",
        ),
        (swapped, "do not lie"),
        (
            good.replace("tracepoint prev_comm", "tracepoint prev_com"),
            "field prev_com ",
        ),
        (
            good.replace("kstack:kstack(32)", "kstack:kstack"),
            "not understood",
        ),
        (good.replace("event {", "event {;"), "expected a name"),
        (good[..good.len() / 2].to_owned(), "line"),
        (String::new(), "no env block"),
        ("\u{feff}trace".to_owned(), "unexpected character"),
    ];
    for (text, expected) in cases {
        let error = parse(&text).unwrap_err().to_string();
        assert!(
            error.contains("line ") && error.contains(expected),
            "{expected:?} not in {error:?}"
        );
    }
}

#[test]
fn types_nested_beyond_reason_do_not_exhaust_the_stack() {
    let deep = "event { fields := ".to_owned() + &"struct { ".repeat(100_000);
    assert!(parse(&deep).unwrap_err().to_string().contains("too deeply"));
    let deep = "trace { fields := struct { integer { size = 8; } x".to_owned() + &"[1]".repeat(100_000);
    assert!(parse(&deep).unwrap_err().to_string().contains("too deeply"));
}

fn any_names() -> impl Strategy<Value = Names> {
    prop::collection::vec(
        (any::<i64>().prop_map(|n| n >> (n & 63)), "[ -~äß\n\t]{0,6}"),
        0..5,
    )
    .prop_map(Into::into)
}

fn any_size() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![1_u8, 2, 4, 8])
}

pub fn any_fixed() -> impl Strategy<Value = FieldType> {
    let base = prop::sample::select(vec![Base::Decimal, Base::Hexadecimal, Base::Octal]);
    let leaf =
        prop_oneof![
            (any_size(), any::<bool>(), base).prop_map(|(size, signed, base)| FieldType::Integer {
                size,
                signed,
                base
            }),
            Just(FieldType::Bool),
            prop_oneof![Just(4), Just(8)].prop_map(|size| FieldType::Float { size }),
            any::<bool>().prop_map(|symbolic| FieldType::Pointer { symbolic }),
            (any_size(), any::<bool>(), any_names())
                .prop_map(|(size, signed, names)| FieldType::Enumeration { size, signed, names }),
            (any_size(), any_names()).prop_map(|(size, names)| FieldType::Flags { size, names }),
            (1..40_u32).prop_map(|size| FieldType::CharArray { size }),
            (0..40_u32).prop_map(|max| FieldType::InlineString { max }),
            (0..40_u32).prop_map(|max| FieldType::Buffer { max }),
            any_named().prop_map(FieldType::Named),
            any_held_stack().prop_map(FieldType::HeldStack),
        ];
    leaf.prop_recursive(4, 12, 4, |inner| {
        let array = (inner.clone(), 0..5_u32).prop_map(|(element, count)| FieldType::Array {
            element: Box::new(element),
            count,
        });
        prop_oneof![
            array,
            any_composite(inner).prop_map(|it| FieldType::Composite(it.into()))
        ]
    })
}

fn any_named() -> impl Strategy<Value = Named> {
    let clocks = [
        DateClock::Boot,
        DateClock::Monotonic,
        DateClock::Atomic,
        DateClock::Real,
    ];
    let plain = vec![
        Named::KernelSymbol,
        Named::UserSymbol,
        Named::Inet,
        Named::Mac,
        Named::User,
        Named::Error,
        Named::Signal,
        Named::SystemCall,
    ];
    prop_oneof![
        6 => prop::sample::select(plain),
        1 => (prop::sample::select(clocks.to_vec()), "[ -~é\n]{0,9}")
            .prop_map(|(clock, format)| Named::Date { clock, format }),
        1 => "[a-z*]{0,5}".prop_map(|hierarchies| Named::Cgroup { hierarchies }),
    ]
}

fn any_held_stack() -> impl Strategy<Value = HeldStack> {
    let modes = [
        StackMode::Bpftrace,
        StackMode::Perf,
        StackMode::Raw,
        StackMode::BuildId,
    ];
    let space = prop::sample::select(vec![Space::Kernel, Space::User]);
    let mode = prop::sample::select(modes.to_vec());
    let frames = prop::sample::select(vec![Frames::Inline, Frames::Numbered]);
    (space, 0..5_u32, mode, frames).prop_map(|(space, max, mode, frames)| HeldStack {
        space,
        max,
        mode,
        frames,
    })
}

/// Tuples, records and structures as C places them, packed, and with members that overlap; and bit fields.
fn any_composite(inner: impl Strategy<Value = FieldType> + 'static) -> impl Strategy<Value = Composite> {
    let kinds = [CompositeKind::Tuple, CompositeKind::Record, CompositeKind::Struct];
    let members = prop::collection::vec(("[a-z]{0,3}", inner), 0..5);
    (prop::sample::select(kinds.to_vec()), members, 0..4, any::<u8>()).prop_map(
        |(kind, members, how, bits)| {
            let mut all = Composite::new(kind, members);
            let mut end = 0;
            for member in &mut all.members {
                match how {
                    0 => (member.offset, end) = (end, end + member.ty.fixed_size()),
                    1 => (member.offset, end) = (0, end.max(member.ty.fixed_size())),
                    2 => {
                        let whole = member.ty.integer_size().map_or(0, |size| size * 8);
                        let (first, width) = (bits % whole.max(1), bits / 8 % 8 + 1);
                        member.bits = (first + width <= whole).then_some(Bits { first, width });
                    }
                    _ => {}
                }
            }
            if how < 2 {
                (all.size, all.align) = (end, 1);
            }
            if how == 1 {
                all.kind = CompositeKind::Union;
            }
            all
        },
    )
}

pub fn any_event() -> impl Strategy<Value = EventClass> {
    let space = || prop::sample::select(vec![Space::Kernel, Space::User]);
    let ty = prop_oneof![
        6 => any_fixed(),
        1 => (1..300_u32).prop_map(|max| FieldType::String { max }),
        1 => (1..300_u32).prop_map(|max| FieldType::Bytes { max }),
        1 => (space(), 1..128_u32).prop_map(|(space, max)| FieldType::Stack { space, max }),
        1 => (1..64_u32).prop_map(|words| FieldType::StackCopy { max: words * 8, shown: None }),
    ];
    let name = prop_oneof![8 => "[a-z_]{1,4}", 1 => "[ -~ö]{0,5}"];
    let fields = prop::collection::vec((name, ty), 0..8);
    let asked = ("[a-z]{0,9}", "[ -~\n]{0,20}").prop_map(|(verb, text)| Action { verb, text });
    let event = (
        0..u16::MAX,
        "[ -~\n]{0,20}",
        "[ -~]{0,9}",
        fields,
        proptest::option::of(asked),
    );
    event.prop_map(|(id, name, kind, fields, action)| EventClass {
        id: EventId(id),
        print: action.is_none().then(|| format!("{{{name}}} = {{{{}}}} é")),
        name,
        kind,
        layout: Layout::new(fields),
        action,
    })
}

fn any_info() -> impl Strategy<Value = TraceInfo> {
    let event = prop::collection::btree_map(0..u16::MAX, any_event(), 0..4);
    let buffer = (("[ -~]{0,9}", any::<bool>()), any::<u64>());
    let buffers = prop::collection::btree_map(any::<u32>(), buffer, 0..3);
    let words = ["[ -~\n\t\"\\\\é]{0,20}"; 7];
    (
        any::<[u8; 16]>(),
        any::<u64>(),
        0..1_000_000_000_u32,
        words,
        buffers,
        event,
    )
        .prop_map(
            |(
                uuid,
                seconds,
                nanoseconds,
                [
                    hostname,
                    kernel_release,
                    machine,
                    tracer_version,
                    command,
                    session,
                    boot,
                ],
                buffers,
                events,
            )| {
                let buffer = |(number, ((name, overwrite), bytes_per_cpu))| BufferInfo {
                    number,
                    name,
                    mode: if overwrite {
                        BufferMode::Overwrite
                    } else {
                        BufferMode::Discard
                    },
                    bytes_per_cpu,
                };
                let event = |(id, event)| EventClass {
                    id: EventId(id),
                    ..event
                };
                TraceInfo {
                    uuid: Uuid(uuid),
                    clock: ClockOffset { seconds, nanoseconds },
                    hostname,
                    kernel_release,
                    machine,
                    tracer_version,
                    command,
                    session,
                    boot,
                    buffers: buffers.into_iter().map(buffer).collect(),
                    events: events.into_iter().map(event).collect(),
                }
            },
        )
}

proptest! {
    #[test]
    fn any_trace_survives_the_round_trip(info in any_info()) {
        let text = text(&info).unwrap();
        prop_assert_eq!(parse(&text).unwrap(), info, "{}", text);
    }
}
