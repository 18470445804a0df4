//! Operators of scripts: the widths and signs of what they give, and its values.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
#[path = "support/maps.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod sharing;
mod support;

use sharing::Maps;

/// Contents of `@` when a program has run once.
#[track_caller]
fn once(program: &str) -> String {
    let mut made = Maps::program(&[program]);
    made.run(0, 0, &[1, 2, 3]);
    made.text("")
}

/// Widths and signs are those that bpftrace 0.27 says (`sizeof`, `typeinfo`), for all operators beside all integers.
#[test]
fn operators_have_bpftraces_types() {
    for (operands, expression, size, ty) in [
        ("$a = (uint8)7", "~$a", 8, "uint64"),
        ("$a = (int8)7", "~$a", 8, "int64"),
        ("$a = (uint16)7", "-$a", 8, "uint64"),
        ("$a = (int16)7", "-$a", 8, "int64"),
        ("$a = (uint8)7", "!$a", 1, "bool"),
        ("$a = (uint8)7; $b = (int8)3", "$a + $b", 8, "int64"),
        ("$a = (uint8)7", "$a + (uint8)3", 8, "uint64"),
        ("$a = (uint8)7", "(uint8)3 + (uint8)3", 8, "uint64"),
        ("$a = (uint8)7", "(uint8)3 + (int8)3", 8, "int64"),
        ("$a = (uint8)7", "(uint64)3 | (int8)3", 8, "int64"),
        ("$a = (uint8)7", "$a + 3", 8, "uint64"),
        ("$a = (uint8)7", "3 + 3", 1, "int8"),
        ("$a = (uint64)7; $b = (int8)3", "$a / $b", 8, "int64"),
        ("$a = (uint64)7; $b = (int8)3", "$b % $a", 8, "int64"),
        ("$a = (uint64)7", "$a / 3", 8, "uint64"),
        ("$a = (uint8)7; $b = (int8)3", "$a << $b", 8, "int64"),
        ("$a = (uint8)7; $b = (uint8)3", "$a >> $b", 8, "uint64"),
        ("$a = (uint8)7", "$a << 2", 8, "uint64"),
        ("$a = (int8)7", "(int8)7 << (int8)3", 8, "int64"),
        ("$a = (uint8)7; $b = (uint16)3", "arg1 ? $a : $b", 2, "uint16"),
        ("$a = (uint8)7; $b = (int8)3", "arg1 ? $a : $b", 2, "int16"),
        ("$a = (uint32)7; $b = (int8)3", "arg1 ? $a : $b", 8, "int64"),
        ("$a = (uint64)7; $b = (int8)3", "arg1 ? $a : $b", 8, "int64"),
        ("$a = (uint16)7", "arg1 ? $a : 5", 2, "uint16"),
        ("$a = (int8)7", "arg1 ? 300 : $a", 2, "int16"),
        ("$a = (int8)7", "arg1 ? 1 : 200", 2, "int16"),
        ("$a = (int8 *)7", "arg1 ? $a : 0", 8, "int8 *"),
        ("$a = (int8 *)7", "arg1 ? (void *)5 : $a", 8, "int8 *"),
    ] {
        let program =
            format!("{{ {operands}; @ = (sizeof({expression}), typeinfo({expression}).full_type) }}");
        assert_eq!(once(&program), format!("@: ({size}, {ty})\n"), "{expression}");
    }
}

/// What is cut to the width of a narrow operand stays at that width below the next `-` or `~`.
#[test]
fn signs_and_complements_of_narrow_numbers_have_their_width() {
    for (program, held) in [
        (
            "$a = (uint8)7; @ = (~(-$a), -(~$a), ~(~$a), -(-$a), -$a, ~$a)",
            "(6, 8, 7, 7, 249, 248)",
        ),
        (
            "$a = (int8)7; @ = (~(-$a), -(~$a), ~(~$a), -(-$a))",
            "(6, 8, 7, 7)",
        ),
        (
            "$a = (uint16)7; @ = (-$a == 65529, -$a > 0, ~$a - 1, ~-(~$a))",
            "(true, true, 65527, 65527)",
        ),
        (
            "$a = (uint32)7; @ = (-$a * 2, -($a + 1))",
            "(8589934578, 18446744073709551608)",
        ),
        ("@ = -(~(uint64)7)", "8"),
        (
            "$a = (uint8)5; @ = (~(arg1 ? $a : (uint16)3), -(arg1 ? $a : (uint16)3))",
            "(65530, 65531)",
        ),
        (
            "$a = (uint64)18446744073709551610; $b = (int64)1; @ = ($a << $b, $a << 1, $a < (int8)3, $a < 3)",
            "(-12, 18446744073709551604, true, false)",
        ),
        ("@ = (int64)(arg1 ? (uint8)200 : (int8)-3)", "200"),
    ] {
        assert_eq!(
            once(&format!("{{ {program} }}")),
            format!("@: {held}\n"),
            "{program}"
        );
    }
}

/// Values are those that bpftrace 0.27 gives: numbers of the text are divided with their signs, all others as whole words without one, and only the type of
/// the quotient says whether it is shown with a sign.
#[test]
fn scripts_divide_words_without_a_sign() {
    for (program, held) in [
        ("@ = (-7 / 2, -7 % 2, 7 / -2, (1 - 11) / 3)", "(-3, -1, -3, -3)"),
        (
            "$x = -7; @ = ($x / 2, $x % 2, $x / -2)",
            "(9223372036854775804, 1, 0)",
        ),
        ("$y = 7; $z = -2; @ = ($y / $z, $y % $z)", "(0, 7)"),
        (
            "$x = (int32)-7; $y = (int8)-7; @ = ($x / $y, $x / (int64)2)",
            "(1, 9223372036854775804)",
        ),
        (
            "$x = -7; $u = (uint32)2; @ = ($x / $u, $u / $x)",
            "(9223372036854775804, 0)",
        ),
        (
            "@ = ((int32)-10 / 3, -1 / (int64)arg1)",
            "(6148914691236517202, 9223372036854775807)",
        ),
        (
            "$x = (int64)-9223372036854775807 - 1; @ = ($x % -1, $x / -1)",
            "(-9223372036854775808, 0)",
        ),
        ("$x = -9; $x /= 2; @ = (int8)$x", "-5"),
        (
            "$x = -8; @ = ($x / 2 > 0, $x / 2 == -4, -($x / 2))",
            "(true, false, -9223372036854775804)",
        ),
    ] {
        let program = format!("{{ {program} }}");
        assert_eq!(once(&program), format!("@: {held}\n"), "{program}");
    }
}
