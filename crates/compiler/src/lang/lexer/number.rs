//! Numbers: bases, underscores, exponents, suffixes.

/// Suffixes of times: what a number is multiplied by to count nanoseconds.
const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Suffixes of sizes: what a number is multiplied by to count bytes.
const SIZES: &[(&str, u64)] = &[("k", 1 << 10), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

/// Suffixes of C that say only that a number is wide, and whether it is unsigned.
const C_SUFFIXES: &[(&str, bool)] = &[
    ("u", true),
    ("U", true),
    ("ul", true),
    ("UL", true),
    ("lu", true),
    ("LU", true),
    ("ull", true),
    ("ULL", true),
    ("llu", true),
    ("LLU", true),
    ("l", false),
    ("L", false),
    ("ll", false),
    ("LL", false),
];

/// Why a number could not be read.
pub(super) enum NumberTrouble<'a> {
    TooLarge,
    Digits,
    Suffix(&'a str),
}

/// A number without a unit: what people write on a command line.
pub fn number_of(word: &str) -> Option<u64> {
    let (value, suffix) = split(word).ok()?;
    let plain = suffix.is_empty() || C_SUFFIXES.iter().any(|(name, _)| *name == suffix);
    plain.then_some(value)
}

/// A number as a parameter of a program: plain, or a time.
pub(in crate::lang) fn parameter_number(word: &str) -> Option<u64> {
    let (value, suffix) = split(word).ok()?;
    let time = TIMES.iter().find(|(name, _)| *name == suffix);
    match time {
        Some((_, factor)) => value.checked_mul(*factor),
        None => number_of(word),
    }
}

/// A number with its suffix: its value and whether it is unsigned.
pub(super) fn read_number(word: &str) -> Result<(u64, bool), NumberTrouble<'_>> {
    let (value, suffix) = split(word)?;
    if suffix.is_empty() {
        return Ok((value, false));
    }
    if let Some((_, unsigned)) = C_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok((value, *unsigned));
    }
    let (_, factor) = TIMES
        .iter()
        .chain(SIZES)
        .find(|(name, _)| *name == suffix)
        .ok_or(NumberTrouble::Suffix(suffix))?;
    let value = value.checked_mul(*factor).ok_or(NumberTrouble::TooLarge)?;
    Ok((value, false))
}

/// A number, its exponent applied, and its suffix.
fn split(word: &str) -> Result<(u64, &str), NumberTrouble<'_>> {
    let lower = word.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (radix, body) = match lower.as_str() {
        "0x" => (16, &word[2..]),
        "0b" => (2, &word[2..]),
        _ if word.len() > 1
            && word.starts_with('0')
            && word[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            (8, &word[1..])
        }
        _ => (10, word),
    };
    let end = body
        // An 8 or 9 in an octal number is a wrong digit, and not the beginning of a suffix.
        .find(|c: char| !(c.is_digit(if radix == 8 { 10 } else { radix }) || c == '_'))
        .unwrap_or(body.len());
    let (digits, mut suffix) = body.split_at(end);
    if digits.ends_with('_') {
        return Err(NumberTrouble::Digits);
    }
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || (radix != 10 && !digits.chars().all(|c| c.is_digit(radix))) {
        return Err(NumberTrouble::Digits);
    }
    let mut value = u64::from_str_radix(&digits, radix).map_err(|_| NumberTrouble::TooLarge)?;
    if let Some(exponent) = exponent(suffix).filter(|_| radix == 10) {
        let factor = 10_u64.checked_pow(exponent).ok_or(NumberTrouble::TooLarge)?;
        value = value.checked_mul(factor).ok_or(NumberTrouble::TooLarge)?;
        suffix = "";
    }
    Ok((value, suffix))
}

/// The exponent of `1e6`, from `e6`.
fn exponent(suffix: &str) -> Option<u32> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    digits.parse().ok()
}
