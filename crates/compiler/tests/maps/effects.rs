//! Expressions as statements: what they change is kept, under the conditions under which they are evaluated.

use crate::sharing::Maps;

/// Contents of `@x` after a program ran once with 7 as `arg2`.
#[track_caller]
fn after(statements: &str) -> String {
    let mut maps = Maps::program(&[&format!("{{ @x = 0; {statements} }}")]);
    maps.run(0, 0, &[0, 0, 7]);
    maps.text("x")
}

/// A chain of operators is as deep as one, however long it is: its pieces keep order, types and what is not evaluated.
#[test]
fn chains_of_operators_are_of_any_length() {
    let chain = |first: &str, part: &str, times: usize| format!("{first}{}", part.repeat(times));
    for (value, x) in [
        (chain("0", " + 1", 10_000), 10_000_i64),
        (chain("arg2", " + 1 - 2", 400), 7 - 400),
        (
            chain("(int8)arg2", " * 3", 300),
            7_i64.wrapping_mul(3_i64.wrapping_pow(300)),
        ),
        (chain("arg2 == 8", " || arg2 == 9", 500) + " || arg2 == 7", 1),
        (chain("arg2", " && arg2", 500) + " && arg2 == 8", 0),
        (chain("arg2", " - 1 * 2 + (3 - 1)", 500), 7),
    ] {
        assert_eq!(after(&format!("@x = (int64)({value});")), format!("@x: {x}\n"));
    }
    let skipped = chain("$n = 0; $y = arg2 == 7", " || $n++ > 5", 300);
    assert_eq!(after(&format!("{skipped}; @x = $n;")), "@x: 0\n");
    let counted = chain("$n = 0; $y = $n++", " + $n++", 300);
    assert_eq!(
        after(&format!("{counted}; @x = $y;")),
        format!("@x: {}\n", 300 * 301 / 2)
    );
}

/// A predicate may keep values in variables, as a division does, and a long chain.
#[test]
fn predicates_may_keep_values() {
    let long = format!("arg2 == 8{} || arg2 == 7", " || arg2 == 9".repeat(300));
    for (predicate, x) in [
        ("({ $n = arg2; $n + 1 }) == 8", 1),
        ("100 / arg2 == 14", 1),
        ("100 / arg2 == 15", 0),
        (long.as_str(), 1),
    ] {
        let mut maps = Maps::program(&["{ @x = 0 }", &format!("/{predicate}/ {{ $m = 1; @x = $m; }}")]);
        maps.run(0, 0, &[0, 0, 7]);
        maps.run(1, 0, &[0, 0, 7]);
        assert_eq!(maps.text("x"), format!("@x: {x}\n"), "{predicate}");
    }
}

#[test]
fn steps_below_an_operator_are_done() {
    for (statements, x) in [
        ("$n = 0; arg2 == 7 ? $n++ : $n--; @x = $n;", 1),
        ("$n = 0; arg2 == 8 ? $n++ : $n--; @x = $n;", -1),
        ("arg2 == 7 ? @x++ : @y++;", 1),
        ("arg2 == 8 ? @x++ : @y++;", 0),
        ("_ = arg2 == 7 ? @x++ : 0;", 1),
        ("_ = @x++ + 1;", 1),
        ("$n = 1; ($n++, 2); @x = $n;", 2),
        ("$n = 1; -$n++; @x = $n;", 2),
        ("{ @x = 1; @x++ };", 2),
        ("_ = { @x = 1; @x++ };", 2),
    ] {
        assert_eq!(after(statements), format!("@x: {x}\n"), "{statements}");
    }
}

#[test]
fn blocks_below_an_operator_are_done() {
    for (statements, x) in [
        ("_ = { @x = 5; 1 } + 1;", 5),
        ("arg2 == 7 && { @x = 2; 1 };", 2),
        ("arg2 == 8 && { @x = 2; 1 };", 0),
        ("arg2 == 7 || { @x = 2; 1 };", 0),
        ("arg2 == 8 || { @x = 2; 1 };", 2),
        ("arg2 == 7 && @x++ == 0 && @x++ == 1;", 2),
        ("@m[{ @x = 3; 1 }]; @m[1] = 1;", 3),
        ("arg2 ?: { @x = 4; 1 };", 0),
        ("arg2 == 8 ?: { @x = 4; false };", 4),
    ] {
        assert_eq!(after(statements), format!("@x: {x}\n"), "{statements}");
    }
}

#[test]
fn deletions_below_an_operator_are_done() {
    for statements in [
        "arg2 == 7 ? delete(@m, 1) : false;",
        "!delete(@m, 1);",
        "_ = !delete(@m, 1);",
        "_ = delete(@m, 1) && 1;",
    ] {
        let whole = format!("@m[1] = 1; {statements} @x = has_key(@m, 1) ? 1 : 2;");
        assert_eq!(after(&whole), "@x: 2\n", "{statements}");
    }
}

#[test]
fn statements_can_be_chosen_between() {
    for (statements, x) in [
        ("arg2 == 7 ? { @x = 1; } : { @x = 2; };", 1),
        ("arg2 == 8 ? { @x = 1 } : { @x = 2 };", 2),
        ("arg2 == 7 ? clear(@m) : zero(@m); @m[1] = 1; @x = 3;", 3),
        (
            "arg2 == 8 ? clear(@m) : arg2 == 7 ? { @x = 4; } : { @x = 5; }; @m[1] = 1;",
            4,
        ),
        ("_ = arg2 == 7 ? { @x = 1; } : { @x = 2; };", 1),
    ] {
        assert_eq!(after(statements), format!("@x: {x}\n"), "{statements}");
    }
}

/// Of an `if` whose condition is known at once only what is chosen must fit.
#[test]
fn a_value_known_at_once_is_of_the_type_chosen() {
    for (statements, x) in [
        (
            "@x = if comptime (sizeof(uint8) == 1) { 3 } else { strlen(4, 5) };",
            3,
        ),
        (
            "@x = if comptime (sizeof(uint8) == 2) { \"three\" } else { 4 };",
            4,
        ),
    ] {
        assert_eq!(after(statements), format!("@x: {x}\n"), "{statements}");
    }
}
