//! What the checker warns of in scripts, and where.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::lang::ast::Item;
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::has_errors;
use kestrel_compiler::lang::expand::{Inputs, expand};

/// The warnings about a body: each with the text at its place.
#[track_caller]
fn warnings(body: &str) -> Vec<(String, String)> {
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
    assert!(!has_errors(&found), "{text}: {found:?}");
    let place =
        |span: kestrel_compiler::lang::ast::Span| text[span.start as usize..span.end as usize].to_owned();
    found
        .into_iter()
        .map(|one| (one.message, place(one.span)))
        .collect()
}

#[test]
fn statements_behind_what_leaves_their_block_are_named() {
    for (body, unreached) in [
        ("return; print(1); print(2)", "print(1)"),
        ("if (pid) { return; } else { return; } print(1)", "print(1)"),
        ("if (pid) { return; } else { exit(); } print(1)", "print(1)"),
        (
            "if (pid) { return; } else if (tid) { return; } else { exit(1); } print(1)",
            "print(1)",
        ),
        ("{ return; } print(1)", "print(1)"),
        (
            "if (pid) { { return; } } else { { exit(); } } print(1)",
            "print(1)",
        ),
        (
            "for ($i : 0..3) { if ($i == 1) { break; } else { continue; } print($i); } print(1)",
            "print($i)",
        ),
    ] {
        let wanted = ("Unreachable statement.".to_owned(), unreached.to_owned());
        assert_eq!(warnings(body), [wanted], "{body}");
    }
    for body in [
        "if (pid) { return; } print(1)",
        "if (pid) { return; } else if (tid) { return; } print(1)",
        "if (pid) { print(2); } else { return; } print(1)",
        "for ($i : 0..3) { return; } print(1)",
        "for ($i : 0..3) { if ($i == 1) { break; } else { print(2); } print($i); } print(1)",
        "if comptime (0) { return; } else { print(2); } print(1)",
    ] {
        assert_eq!(warnings(body), [], "{body}");
    }
}

#[test]
fn addresses_of_two_types_are_no_pair() {
    for (body, message, place) in [
        (
            "$p = (int8 *)5; print($p == (int16 *)5)",
            "comparison of distinct pointer types: int8 *, int16 *",
            "$p == (int16 *)5",
        ),
        (
            "$p = (int8 **)5; print($p < (int16 **)5)",
            "comparison of distinct pointer types: int8 **, int16 **",
            "$p < (int16 **)5",
        ),
        (
            "print(pid ? (int8 *)5 : (int16 *)6)",
            "choice between distinct pointer types: int8 *, int16 *",
            "pid ? (int8 *)5 : (int16 *)6",
        ),
    ] {
        assert_eq!(warnings(body), [(message.to_owned(), place.to_owned())], "{body}");
    }
    for body in [
        "$p = (int8 *)5; print($p == (int8 *)6)",
        "$p = (int8 *)5; print($p == (void *)6)",
        "$p = (int8 *)5; print($p == 6)",
        "print(pid ? (int8 *)5 : (void *)6)",
        "print(pid ? (int8 *)5 : 0)",
    ] {
        assert_eq!(warnings(body), [], "{body}");
    }
}

#[test]
fn words_compared_with_negative_numbers_are_named() {
    let message = "Expression of type: uint64 being cast to type: int64".to_owned();
    for (body, place) in [
        ("if (nsecs > -1) { print(1); }", "nsecs"),
        ("$u = (uint64)1; if (-1 < $u) { print(1); }", "$u"),
    ] {
        assert_eq!(warnings(body), [(message.clone(), place.to_owned())], "{body}");
    }
    for body in [
        "if (nsecs > 1) { print(1); }",
        "$d = nsecs - 5; if (nsecs > $d) { print(1); }",
        "if (pid > -1) { print(1); }",
        "$x = -1; if ($x < -2) { print(1); }",
    ] {
        assert_eq!(warnings(body), [], "{body}");
    }
}

#[test]
fn a_cast_of_a_negative_number_to_its_type_is_unnecessary() {
    let message = "Unnecessary cast: expression is already of type int8".to_owned();
    assert_eq!(
        warnings("$a = (int8)-1; print($a)"),
        [(message, "(int8)".to_owned())]
    );
    for body in ["$a = (int16)-1; print($a)", "$a = (uint8)-1; print($a)"] {
        assert_eq!(warnings(body), [], "{body}");
    }
}

/// As bpftrace 0.27: a quotient is warned of where a side may be negative, unless both are of one type.
#[test]
fn signed_divisions() {
    let message = |op: &str| {
        format!(
            "signed operands for '{op}' can lead to undefined behavior (cast to unsigned to silence warning)"
        )
    };
    for (body, op, place) in [
        ("$x = (int64)pid; print($x / 3)", "/", "$x / 3"),
        ("$x = 7; print($x % 200)", "%", "$x % 200"),
        ("$x = 7; $y = (uint8)3; print($x / $y)", "/", "$x / $y"),
        ("$x = pid; print(-1 / $x)", "/", "-1 / $x"),
    ] {
        assert_eq!(warnings(body), [(message(op), place.to_owned())], "{body}");
    }
    for body in [
        "$x = 7; print($x / 127)",
        "$x = (int64)pid; $y = (int64)tid; print($x / $y)",
        "print(nsecs / 1000)",
        "@s = nsecs; print((nsecs - @s) / 1000)",
        "print((uint64)3 / 1000)",
        "print(-1000000 / 3)",
        "print((pid == 5) / 2)",
    ] {
        assert_eq!(warnings(body), [], "{body}");
    }
}
