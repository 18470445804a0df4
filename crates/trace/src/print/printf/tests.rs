//! Output of bpftrace 0.27.1, unless a row says otherwise.

use super::{Format, KernelPart, KernelValue, Mismatch, Wrong};
use crate::layout::{Base, Composite, CompositeKind, FieldType, Names, Space};
use crate::print::{Style, raw};
use crate::symbol::Symbols;
use crate::value::Value;
use std::sync::Arc;

fn integer(size: u8, signed: bool) -> FieldType {
    FieldType::Integer {
        size,
        signed,
        base: Base::Decimal,
    }
}

/// A value of a type, in little-endian bytes.
type Given = (FieldType, Vec<u8>);

fn number(value: i64) -> Given {
    (integer(8, true), value.to_le_bytes().to_vec())
}

fn text(value: &str) -> Given {
    let size = value.len() as u32 + 1;
    (FieldType::CharArray { size }, [value.as_bytes(), b"\0"].concat())
}

fn buffer(value: &[u8]) -> Given {
    let mut bytes = (value.len() as u32).to_le_bytes().to_vec();
    bytes.extend(value);
    bytes.resize(12, 0);
    (FieldType::Buffer { max: 8 }, bytes)
}

fn written(format: &str, values: &[Given]) -> String {
    let format = Format::parse(format);
    assert_eq!(format.check(values.iter().map(|(ty, _)| ty)), []);
    let mut out = Vec::new();
    let read = values.iter().map(|(ty, bytes)| Value::read(ty, bytes));
    format.write(read, Style::BPFTRACE, &Symbols::default(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_are_written_by_their_conversions() {
    for (format, value, wanted) in [
        ("%5d", 42, "   42"),
        ("%-5d|", 42, "42   |"),
        ("%05d", 42, "00042"),
        ("%05d", -3, "000-3"),
        ("%+d", 42, "+42"),
        ("% d", 42, "42"),
        ("%+05d", 7, "000+7"),
        ("%#x", 42, "0x2a"),
        ("%#x", 0, "0"),
        ("%#o", 42, "052"),
        ("%#X", 255, "0XFF"),
        ("%#010x", 255, "0000000xff"),
        ("%x", -1, "ffffffff"),
        ("%X", 255, "FF"),
        ("%o", -1, "37777777777"),
        ("%c", 65, "A"),
        ("%5c", 65, "    A"),
        ("%p", 10, "0xa"),
        ("%p", 0, "0"),
        ("%i", 5, "5"),
        ("%u", -1, "4294967295"),
        ("%d", 9_007_199_254_740_993, "1"),
        ("%lld", 9_007_199_254_740_993, "9007199254740993"),
        ("%hhd", 300, "44"),
        ("%hd", -1, "-1"),
        ("%hhx", -1, "ff"),
        ("%hx", 0x1234_5678_abcd, "abcd"),
        ("%lx", -1, "ffffffffffffffff"),
        ("%zu", -1, "18446744073709551615"),
        ("%jx", -1, "ffffffffffffffff"),
        ("%td", -1, "-1"),
        ("%5.2d|", 3, "    3|"),
        ("%s", -7, "-7"),
        ("%gr", 0xcc0, "GFP_KERNEL"),
        ("%gr", 0x40_0dc0, "GFP_KERNEL_ACCOUNT|__GFP_ZERO"),
        ("%gr", 0, "0"),
        ("%gr", 1, "GFP_DMA"),
        ("%gr", 0x21c_24ca, "GFP_TRANSHUGE"),
        // Ignored, as in C; bpftrace writes zeroes behind the number.
        ("%-08d|", 4, "4       |"),
    ] {
        assert_eq!(written(format, &[number(value)]), wanted, "{format} {value}");
    }
}

#[test]
fn numbers_keep_the_sign_of_their_type() {
    let byte = (integer(1, true), vec![0xff]);
    assert_eq!(
        written("%x %llx %d %s", &[byte.clone(), byte.clone(), byte.clone(), byte]),
        "ffffffff ffffffffffffffff -1 -1"
    );
    let unsigned = (integer(4, false), vec![0xff; 4]);
    assert_eq!(
        written("%d %u %s", &[unsigned.clone(), unsigned.clone(), unsigned]),
        "-1 4294967295 4294967295"
    );
    let truth = (FieldType::Bool, vec![1]);
    assert_eq!(
        written("%d %s %x", &[truth.clone(), truth.clone(), truth]),
        "1 true 1"
    );
    let names: Names = [(1, "ONE".to_owned())].into();
    let named = FieldType::Enumeration {
        size: 4,
        signed: false,
        names,
    };
    let one = (named.clone(), vec![1, 0, 0, 0]);
    let other = (named, vec![100, 0, 0, 0]);
    assert_eq!(written("%d %s %s", &[one.clone(), one, other]), "1 ONE 100");
}

#[test]
fn strings_take_anything_and_buffers_have_forms() {
    let members = [("x", 1_u8), ("y", 2)].map(|(name, _)| (name.to_owned(), integer(1, false)));
    let record = FieldType::Composite(Arc::new(Composite::new(CompositeKind::Record, members)));
    let tuple = FieldType::tuple([integer(1, false), integer(1, false)]);
    let pair = vec![1, 2];
    assert_eq!(
        written(
            "%10s|%-10s|%24s|%5s|%.2s|%08s",
            &[
                (tuple, pair.clone()),
                text("ab"),
                (record, pair),
                number(12),
                text("abc"),
                text("s")
            ]
        ),
        "    (1, 2)|ab        |      { .x = 1, .y = 2 }|   12|abc|0000000s"
    );
    let bytes = b"a\0\xffb";
    assert_eq!(
        written(
            "%r|%rx|%rh|%s|%10r",
            &[
                buffer(bytes),
                buffer(bytes),
                buffer(bytes),
                buffer(bytes),
                buffer(b"ab")
            ]
        ),
        r"a\x00\xffb|\x61\x00\xff\x62|61 00 ff 62|a\x00\xffb|        ab"
    );
}

#[test]
fn unknown_conversions_are_printed_as_they_stand() {
    assert_eq!(written("100%\n", &[]), "100%\n");
    assert_eq!(written("%5% %d %s", &[number(4), text("a")]), "% 4 a");
    assert_eq!(written("é%dé%", &[number(4)]), "é4é%");
    assert_eq!(written("%z %k %é", &[]), "%z %k %é");
    assert_eq!(written("", &[]), "");
    assert_eq!(written("%99999999999999999999d", &[number(1)]).len(), 4096);
    assert_eq!(written("%*d%.*d", &[number(5), number(3)]), "53");
}

#[test]
fn formats_and_arguments_are_held_against_each_other() {
    let check = |format: &str, types: &[FieldType]| Format::parse(format).check(types);
    let words = |format: &str, types: &[FieldType]| -> Vec<String> {
        check(format, types)
            .iter()
            .map(|it| it.wrong.to_string())
            .collect()
    };
    let string = FieldType::CharArray { size: 2 };
    assert_eq!(
        words("%d %d", &[integer(8, true)]),
        ["not enough arguments for format string (1 supplied, 2 expected)"]
    );
    assert_eq!(
        words("%d", &[string.clone(), string.clone()]),
        ["too many arguments for format string (2 supplied, 1 expected)"]
    );
    assert_eq!(
        words("%f", &[integer(8, true)]),
        ["unsupported format specifier: f"]
    );
    let wrong = Wrong::Type {
        letters: "d".to_owned(),
        instead: "%s",
    };
    let all = check("%s = %5lld", &[string.clone(), string.clone()]);
    assert_eq!(
        all,
        [Mismatch {
            at: Some(5..10),
            argument: Some(1),
            wrong
        }]
    );
    assert_eq!(
        words(
            "%r %rx %rh",
            &[integer(1, true), string.clone(), FieldType::Buffer { max: 3 }]
        )
        .len(),
        2
    );
    assert_eq!(words("%gr", &[string]).len(), 1);
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_format(format in "(%|[-+ #0*.]|[0-9]|[hlLjzt]|[diouxXcspraAeEgGn]|é|.){0,24}", value in any::<i64>()) {
            let parsed = Format::parse(&format);
            let values = parsed.conversions().map(|_| number(value)).collect::<Vec<_>>();
            let mut out = Vec::new();
            let read = values.iter().map(|(ty, bytes)| Value::read(ty, bytes));
            parsed.write(read, Style::BPFTRACE, &Symbols::default(), &mut out);
            for conversion in parsed.conversions() {
                prop_assert!(format[conversion.at.clone()].starts_with('%'));
            }
            let plain = format.replace('%', "");
            let mut out = Vec::new();
            Format::parse(&plain).write([].into_iter(), Style::BPFTRACE, &Symbols::default(), &mut out);
            // A byte that is no UTF-8 stands in a format as a private character, which is a character of any format, too.
            prop_assert_eq!(out, raw::to_bytes(&plain).into_owned());
        }
    }
}

#[test]
fn formats_for_the_kernel() {
    let parts = |text: &str, types: &[FieldType]| Format::parse(text).for_kernel(types);
    let format = |format: &str, values: &[KernelValue]| KernelPart::Format {
        format: format.to_owned(),
        values: values.to_vec(),
    };
    let bytes = |bytes: &str| KernelPart::Bytes(bytes.as_bytes().to_vec());
    let (number, string) = (KernelValue::Number, KernelValue::String);
    let comm = FieldType::CharArray { size: 16 };
    let (int, long) = (integer(4, true), integer(8, false));
    // The text behind a string is another call.
    assert_eq!(
        parts("%-16s:%5d %%\n", &[comm.clone(), int.clone()]).unwrap(),
        [format("%-16s", &[string]), format(":%5d %%\n", &[number])]
    );
    assert_eq!(
        parts(
            "100%% %+d %lld %05u %lX %p %s",
            &[
                int.clone(),
                int.clone(),
                int.clone(),
                long.clone(),
                long.clone(),
                long.clone()
            ]
        )
        .unwrap(),
        [format("100%% %+d %lld %05u %llX 0x%llx %llu", &[number; 6])]
    );
    let narrow = |bytes, signed| KernelValue::Narrow { bytes, signed };
    assert_eq!(
        parts("%hd %hhx", &[long.clone(), long.clone()]).unwrap(),
        [format("%d %x", &[narrow(2, true), narrow(1, false)])]
    );
    // The kernel refuses a format that is not ASCII.
    assert_eq!(
        parts("µ %d%c.", &[int.clone(), int.clone()]).unwrap(),
        [
            bytes("µ "),
            format("%d", &[number]),
            KernelPart::Character,
            bytes(".")
        ]
    );
    let many = parts(&"%d,".repeat(13), &vec![int.clone(); 13]).unwrap();
    assert_eq!(
        many,
        [
            format(&["%d"; 12].join(","), &[number; 12]),
            format(",%d,", &[number])
        ]
    );
    assert_eq!(parts("text", &[]).unwrap(), [bytes("text")]);
    let refused = |text: &str, ty: &FieldType| parts(text, std::slice::from_ref(ty)).unwrap_err().instead;
    assert_eq!(refused("%#x", &int), Some("0x%x"));
    assert_eq!(refused("%o", &int), Some("%llx"));
    assert_eq!(refused("%20p", &int), Some("0x%016llx"));
    assert_eq!(
        refused("%s", &FieldType::Pointer { symbolic: true }),
        Some("%lld")
    );
    assert_eq!(refused("%r", &FieldType::Buffer { max: 8 }), None);
    assert_eq!(
        refused(
            "%s",
            &FieldType::Stack {
                space: Space::Kernel,
                max: 4
            }
        ),
        None
    );
}
