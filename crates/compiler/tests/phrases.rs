//! The first line of messages about scripts: the words that people look for, and the place.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::lang::ast::Item;
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::Severity;
use kestrel_compiler::lang::expand::{Inputs, expand};

/// The first error about a body, with the text at its place.
#[track_caller]
fn error(body: &str) -> (String, String) {
    let text = format!("begin {{ {body} }}");
    let expanded = expand("<script>", &text, Config::default(), &Inputs::default());
    let mut found = expanded.found;
    let context = kernel::by_name("kprobe");
    let mut globals = Globals {
        infers_types: true,
        ..Globals::default()
    };
    for item in &expanded.script.items {
        if let Item::Probe(probe) = item {
            found.extend(check(probe, &context, true, &mut globals).1);
        }
    }
    found.retain(|one| one.severity == Severity::Error);
    let first = found
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("no error: {body}"));
    let place = text[first.span.start as usize..first.span.end as usize].to_owned();
    (first.message, place)
}

#[test]
fn messages_have_the_words_of_the_field_at_their_place() {
    let mut wrong = Vec::new();
    for (body, message, place) in [
        (
            "$a = 1; $a = \"x\";",
            "Type mismatch for $a: trying to assign value of type 'string[2]' when variable already has a type 'int8'",
            "$a = \"x\"",
        ),
        (
            "let $a: uint8 = 300;",
            "Type mismatch for $a: trying to assign value of type 'int16' when variable already has a type 'uint8'",
            "let $a: uint8 = 300",
        ),
        (
            "@a[1] = 1; @a[2] = \"x\";",
            "Type mismatch for @a: trying to assign value of type 'string[2]' when map already has a type 'int8'",
            "@a[2] = \"x\"",
        ),
        (
            "@c = count(); @c = sum(5);",
            "Type mismatch for @c: trying to assign value of type 'sum_t' when map already has a type 'count_t'",
            "@c",
        ),
        (
            "@h = hist(5, 2); @h = hist(5, 3);",
            "Different bits in a single hist unsupported",
            "@h",
        ),
        (
            "@h = lhist(5, 0, 10, 1); @h = lhist(5, 0, 20, 1);",
            "Different lhist bounds in a single map unsupported",
            "@h",
        ),
        (
            "@a[1] = 1; @a[1, 2] = 2;",
            "Argument mismatch for @a: trying to access with arguments: '(int8,int8)' when map expects arguments: 'int8'",
            "@a[1, 2]",
        ),
        (
            "@a[1] = 1; @a = 2;",
            "@a used as a map without an explicit key (scalar map), previously used with an explicit key (non-scalar map)",
            "@a",
        ),
        (
            "@a = 1; $x = @a[1];",
            "@a used as a map with an explicit key (non-scalar map), previously used without an explicit key (scalar map)",
            "@a[1]",
        ),
        (
            "@g = 2; print(has_key(@g, 1));",
            "call to has_key() expects a map with explicit keys (non-scalar map)",
            "has_key(@g, 1)",
        ),
        (
            "@g[1] = 2; print(has_key(@g));",
            "Call to has_key() has arguments that do not match any definition.",
            "has_key(@g)",
        ),
        (
            "@g[1] = 2; delete(@g);",
            "call to delete() with a single argument expects a map without explicit keys (scalar map)",
            "delete(@g)",
        ),
        (
            "@g = 2; delete(@g, 1);",
            "call to delete() with two arguments expects a map with explicit keys (non-scalar map)",
            "delete(@g, 1)",
        ),
        (
            "@g[1] = 2; delete(@g, 1, 2);",
            "Call to delete() has arguments that do not match any definition.",
            "delete(@g, 1, 2)",
        ),
        (
            "print(len(\"abc\"));",
            "call to len() expects a map, ustack, or kstack",
            "\"abc\"",
        ),
        (
            "unroll(101) { @++; }",
            "unroll maximum value is 100",
            "unroll(101) { @++; }",
        ),
        (
            "unroll(-1) { @++; }",
            "invalid unroll value",
            "unroll(-1) { @++; }",
        ),
        (
            "unroll(\"a\") { @++; }",
            "invalid unroll value",
            "unroll(\"a\") { @++; }",
        ),
        (
            "unroll(0) { @++; }",
            "unroll minimum value is 1",
            "unroll(0) { @++; }",
        ),
        (
            "$a = (int8[4])(int32)1; $x = $a[-1];",
            "The array index operator [] only accepts non-negative integer indices. Got: int8",
            "$a[-1]",
        ),
        (
            "$a = (int8[4])(int32)1; $x = $a[\"a\"];",
            "The array index operator [] only accepts non-negative integer indices. Got: string[2]",
            "$a[\"a\"]",
        ),
        (
            "$a = 5; print($a[0]);",
            "The array index operator [] can only be used on arrays, pointers, and tuples, found int8.",
            "$a[0]",
        ),
        (
            "$a = (1, 2, 3); print($a[3]);",
            "Invalid tuple index: 3. Found 3 elements in tuple.",
            "$a[3]",
        ),
        (
            "$a = (1, 2, 3); print($a.3);",
            "Invalid tuple index: 3. Found 3 elements in tuple.",
            "$a.3",
        ),
        (
            "$a = (1, 2, 3); $i = 1; print($a[$i]);",
            "Array-style access for tuples only valid for integer literals",
            "$a[$i]",
        ),
        (
            "$a = (x=1, y=2); print($a.z);",
            "Record does not contain a field named 'z'",
            "$a.z",
        ),
        (
            "$a = (x=1, x=2);",
            "Named argument list already contains name: x",
            "x",
        ),
        (
            "$a = (1, 2); $a.0 = 5;",
            "Tuples and records are immutable once created. Consider creating a new value and assigning it instead.",
            "$a.0 = 5",
        ),
        (
            "$a = (int8[4])(int32)1; $b = (int16[2])(int32)1; print($a == $b);",
            "Only arrays of same sized integer support comparison operators.",
            "$a == $b",
        ),
        (
            "$a = (int8[4])(int32)1; print($a < $a);",
            "The < operator cannot be used on arrays.",
            "$a < $a",
        ),
        (
            "@a[1] = 1; delete(@a[1], 2);",
            "Call to delete() has arguments that do not match any definition.",
            "delete(@a[1], 2)",
        ),
        (
            "print(kstack(1, perf));",
            "Expected stack mode as first argument",
            "perf",
        ),
        (
            "return \"abc\";",
            "Probe return values can only be integers. Found string[4]",
            "return \"abc\"",
        ),
        (
            "time(5);",
            "time() expects a string literal (int provided)",
            "time(5)",
        ),
        (
            "print(offsetof(struct task_struct, nosuch));",
            "'struct task_struct' has no field named 'nosuch'",
            "offsetof(struct task_struct, nosuch)",
        ),
        (
            "print((1, 2) < (1, 3));",
            "The < operator can not be used on expressions of types (int8,int8), (int8,int8)",
            "(1, 2) < (1, 3)",
        ),
        (
            "$p = (int32 *)1; print($p * 2);",
            "The * operator can not be used on expressions of types int32 *, int8",
            "$p * 2",
        ),
        (
            "$x = (int8[3])(int32)1;",
            "Cannot cast from \"int32\" to \"int8[3]\"",
            "(int8[3])",
        ),
        (
            "print((struct nosuch *)1);",
            "Cannot resolve unknown type \"struct nosuch\"",
            "struct nosuch *",
        ),
        ("print((enum nosuch)1);", "Unknown enum: nosuch", "enum nosuch"),
        ("print(nosuch);", "Unknown identifier: 'nosuch'", "nosuch"),
        ("nosuch();", "Unknown function: 'nosuch'", "nosuch"),
        ("print($x);", "Undefined or undeclared variable: $x", "$x"),
        (
            "$a = 1; let $a = 2;",
            "Variable $a was already declared. Variable shadowing is not allowed.",
            "$a",
        ),
        (
            "$i = 1; for ($i : 0..2) { print($i); }",
            "Loop declaration shadows existing variable: $i",
            "$i",
        ),
        (
            "for ($i : \"a\"..2) { print($i); }",
            "Loop range requires an integer for the start value",
            "for ($i : \"a\"..2) { print($i); }",
        ),
        (
            "for ($i : 0..comm) { print($i); }",
            "Loop range requires an integer for the end value",
            "for ($i : 0..comm) { print($i); }",
        ),
        (
            "@m = 1; for ($kv : @m) { print($kv); }",
            "@m has no explicit keys (scalar map), and cannot be used for iteration",
            "@m",
        ),
        (
            "@m[1] = hist(5); for ($kv : @m) { print($kv); }",
            "Loop expression does not support type: hist_t",
            "@m",
        ),
        (
            "break;",
            "'break' statement is not allowed in a probe outside of a loop",
            "break",
        ),
        (
            "$x = count();",
            "count() must be assigned directly to a map",
            "count()",
        ),
        (
            "count();",
            "count() must be assigned directly to a map",
            "count()",
        ),
        (
            "@a = count(); @b = @a;",
            "Map value 'count_t' cannot be assigned from one map to another. The function that returns this type must be called directly e.g. `@b = count();`.",
            "@b = @a",
        ),
        ("@ = hist(5, 6);", "hist: bits 6 must be 0..5", "hist(5, 6)"),
        (
            "@ = lhist(5, 10, 0, 2);",
            "lhist() min must be less than max (provided min 10 and max 0)",
            "lhist(5, 10, 0, 2)",
        ),
        (
            "@ = lhist(5, 0, 10, 0);",
            "lhist() step must be >= 1 (0 provided)",
            "lhist(5, 0, 10, 0)",
        ),
        (
            "@ = lhist(5, 0, 10, 20);",
            "lhist() step is too large for the given range (provided step 20 for range 10)",
            "lhist(5, 0, 10, 20)",
        ),
        (
            "@ = lhist(5, 0, 100000, 1);",
            "lhist() too many buckets, must be <= 1000 (would need 100000)",
            "lhist(5, 0, 100000, 1)",
        ),
        (
            "@ = tseries(2, 1s, 0);",
            "tseries() num_intervals must be >= 1 (0 provided)",
            "tseries(2, 1s, 0)",
        ),
        (
            "@ = stats(1, 2);",
            "stats() requires one argument (2 provided)",
            "stats(1, 2)",
        ),
        (
            "printf();",
            "printf() requires at least one argument (0 provided)",
            "printf()",
        ),
        (
            "@x = 1; print(@x, 2, 3, 4);",
            "print() takes up to 3 arguments (4 provided)",
            "print(@x, 2, 3, 4)",
        ),
        (
            "print(\"a\", 1);",
            "Non-map print() only takes 1 argument, 2 found",
            "print(\"a\", 1)",
        ),
        (
            "$f = \"%d\"; printf($f, 5);",
            "printf() expects a string literal (string provided)",
            "printf($f, 5)",
        ),
        (
            "print(kaddr(5));",
            "kaddr() expects a string literal (int provided)",
            "kaddr(5)",
        ),
        (
            "printf(\"%d\", \"a\");",
            "unsupported format specifier for type 'string[2]': d",
            "printf(\"%d\", \"a\")",
        ),
        (
            "print(pton(\"1.2.3\"));",
            "pton() expects a valid IPv4/IPv6 address, got 1.2.3",
            "pton(\"1.2.3\")",
        ),
        (
            "print(ntop(\"ab\"));",
            "ntop() argument must be 4 or 16 bytes in size",
            "ntop(\"ab\")",
        ),
        (
            "print(buf(\"abc\"));",
            "buf() expects a length argument for non-array type string",
            "buf(\"abc\")",
        ),
        (
            "$a = pid ? 1 : \"a\";",
            "Branches must return the same type or compatible types: have 'int8' and 'string[2]'",
            "pid ? 1 : \"a\"",
        ),
    ] {
        let (said, at) = error(body);
        if (said.as_str(), at.as_str()) != (message, place) {
            wrong.push(format!("{body}: {said} at {at}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The kernel writes these lines itself: it would leave out a line with a conversion that it does not know, and read memory at a number that is written as a string.
#[test]
fn formats_of_debugf_are_checked() {
    for (body, message, place) in [
        (
            "debugf(\"%s\");",
            "not enough arguments for format string (0 supplied, 1 expected)",
            "debugf(\"%s\")",
        ),
        (
            "debugf(\"%d\", 1, 2);",
            "too many arguments for format string (2 supplied, 1 expected)",
            "debugf(\"%d\", 1, 2)",
        ),
        (
            "debugf(\"%d\", \"a\");",
            "unsupported format specifier for type 'string[2]': d",
            "debugf(\"%d\", \"a\")",
        ),
        (
            "debugf(\"%o\", 5);",
            "Invalid format specifier for `debugf`: o",
            "\"%o\"",
        ),
        (
            "debugf(\"%s\", 5);",
            "Type does not match format specifier: s",
            "5",
        ),
    ] {
        assert_eq!(error(body), (message.to_owned(), place.to_owned()), "{body}");
    }
}
