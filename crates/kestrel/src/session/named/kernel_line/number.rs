//! Numbers as the kernel reads them in a line: `0x` hexadecimal, `0` octal, else decimal.

/// Digits without a sign (`kstrtoull` with base 0, behind its sign): all of the text must be digits.
fn digits(text: &str) -> Option<u64> {
    let hexadecimal = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, digits) = match (hexadecimal, text.starts_with('0')) {
        (Some(rest), _) => (16, rest),
        (None, true) => (8, text),
        (None, false) => (10, text),
    };
    // from_str_radix takes a sign, which the kernel does not take here.
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| plain)
}

/// A number of 64 bits, perhaps with a plus (`kstrtoul`).
pub(super) fn unsigned(text: &str) -> Option<u64> {
    digits(text.strip_prefix('+').unwrap_or(text))
}

/// A whole text as a number, decimal whatever it begins with (`kstrtoul` with base 10).
pub(super) fn decimal(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// A signed number (`kstrtol`).
pub(super) fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => 0_i64.checked_sub_unsigned(digits(rest)?),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// The number that a text begins with, and what follows it (`simple_strtoul`): 0 where there is none.
pub(super) fn leading(text: &str) -> (u64, &str) {
    let hexadecimal = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, rest) = match (hexadecimal, text.starts_with('0')) {
        (Some(rest), _) => (16, rest),
        (None, true) => (8, text),
        (None, false) => (10, text),
    };
    let end = rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (u64::from_str_radix(number, radix).unwrap_or(0), rest)
}

/// The decimal number that a text begins with, and the rest.
pub(super) fn leading_decimal(text: &str) -> (u64, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.parse().unwrap_or(u64::MAX), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        for (text, value) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("+12", Some(12)),
            ("010", Some(8)),
            ("0x1F", Some(31)),
            ("0X10", Some(16)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0x", None),
            ("08", None),
            ("", None),
            ("+", None),
            ("++1", None),
            ("-1", None),
            ("1 ", None),
        ] {
            assert_eq!(unsigned(text), value, "{text}");
        }
        for (text, value) in [
            ("-8", Some(-8)),
            ("-0x10", Some(-16)),
            ("-+8", None),
            ("+8", Some(8)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
        ] {
            assert_eq!(signed(text), value, "{text}");
        }
        assert_eq!(leading("4@2/32"), (4, "@2/32"));
        assert_eq!(leading("0x10/8"), (16, "/8"));
        assert_eq!(leading("@2"), (0, "@2"));
        assert_eq!(decimal("010"), Some(10));
        assert_eq!(decimal("+1"), None);
    }
}
