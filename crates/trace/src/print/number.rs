//! Numbers in sentences: `1,234,567`; counts with their noun: `1 hit`, `2 hits`; times: `1.5 ms`. Sizes in bytes are elsewhere.

/// A number with separators: `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A duration, `1.234 s`, in the unit that leaves one to three digits before the point.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        // A value that rounds to 1000.0 of a unit is 1.0 of the next.
        1_000..999_950 => format!("{:.1} µs", ns as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1} ms", ns as f64 / 1e6),
        999_950_000..120_000_000_000 => format!("{:.3} s", ns as f64 / 1e9),
        _ => {
            let seconds = ns / 1_000_000_000;
            format!(
                "{} h {:02} min {:02} s",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            )
        }
    }
}

/// A count with its noun, given in the singular: `1 entry`, `1,234 entries`. Words behind the noun are not part of it.
///
/// ```
/// use kestrel_trace::print::counted;
/// assert_eq!(counted(1, "event"), "1 event");
/// assert_eq!(counted(1200, "old entry"), "1,200 old entries");
/// ```
pub fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{} {}", thousands(number), plural(noun)),
    }
}

/// The verb for so many, in the past: `was`, `were`.
pub fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// The verb for so many: `is`, `are`.
pub fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Plural of a noun.
fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_three_digits_before_the_point() {
        for (ns, text) in [
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (999_949, "999.9 µs"),
            (999_960, "1.0 ms"),
            (999_960_000, "1.000 s"),
            (90_061_000_000_000, "25 h 01 min 01 s"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn nouns_stand_as_many_as_they_are() {
        for (number, noun, text) in [
            (0, "hit", "0 hits"),
            (1, "hit", "1 hit"),
            (2, "hit", "2 hits"),
            (1, "entry", "1 entry"),
            (1_234_567, "entry", "1,234,567 entries"),
            (3, "key", "3 keys"),
            (3, "process", "3 processes"),
            (2, "switch", "2 switches"),
            (21, "program", "21 programs"),
        ] {
            assert_eq!(counted(number, noun), text);
        }
        assert_eq!((were(1), were(0), are(1), are(2)), ("was", "were", "is", "are"));
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
    }
}
