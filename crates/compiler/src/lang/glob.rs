//! Patterns over strings as the kernel's `glob_match` reads them (lib/glob.c): `*`, `?`, `[a-z]`, `[!a-z]`, `\` before what is meant as it stands.

use kestrel_trace::print::raw;
use std::ops::RangeInclusive;

/// Most bytes that a pattern describes, `*` not counted: where a text may be in the pattern is a bit of one word.
const MAX_ITEMS: usize = 63;

/// An item of a pattern: the set of bytes that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The bytes it stands for, unless `negated`.
    pub ranges: Vec<RangeInclusive<u8>>,
    /// Whether it stands for all other bytes instead.
    pub negated: bool,
}

impl Item {
    fn accepts(&self, byte: u8) -> bool {
        self.ranges.iter().any(|range| range.contains(&byte)) != self.negated
    }
}

/// A pattern: bytes, and before which of them any others may stand.
///
/// ```
/// use kestrel_compiler::lang::glob::Glob;
/// let glob = Glob::parse("k*worker/[0-9]*").unwrap();
/// assert!(glob.matches(b"kworker/0:1") && !glob.matches(b"worker/0:1"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// Byte by byte.
    pub items: Vec<Item>,
    /// Bit `n`: any bytes may stand before item `n`; bit `items.len()`: at the end.
    pub stars: u64,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// In words: one that is too long.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let (mut items, mut stars) = (Vec::new(), 0u64);
        let pattern = raw::to_bytes(pattern);
        let mut rest: &[u8] = &pattern;
        while let [first, behind @ ..] = rest {
            rest = behind;
            if *first != b'*' && items.len() == MAX_ITEMS {
                return Err(format!(
                    "a pattern has at most {MAX_ITEMS} characters beside its `*`"
                ));
            }
            let item = match (first, rest) {
                (b'*', _) => {
                    stars |= 1 << items.len();
                    continue;
                }
                (b'?', _) => Item {
                    ranges: Vec::new(),
                    negated: true,
                },
                (b'[', _) => match class(rest) {
                    Some((item, behind)) => {
                        rest = behind;
                        item
                    }
                    // One that does not close stands for itself, as in the kernel.
                    None => literal(b'['),
                },
                (b'\\', [meant, behind @ ..]) => {
                    rest = behind;
                    literal(*meant)
                }
                (byte, _) => literal(*byte),
            };
            items.push(item);
        }
        Ok(Self { items, stars })
    }

    /// Whether a text, up to its NUL, is one that the pattern stands for.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut places = 1u64;
        for byte in text.iter().take_while(|byte| **byte != 0) {
            let accepting = self
                .items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.accepts(*byte))
                .fold(0u64, |mask, (at, _)| mask | 1 << at);
            places = ((places & accepting) << 1) | (places & self.stars);
        }
        places >> self.items.len() & 1 != 0
    }
}

fn literal(byte: u8) -> Item {
    Item {
        ranges: vec![byte..=byte],
        negated: false,
    }
}

/// `a-z]` or `!a-z]`, what stands behind a bracket, and what follows it.
fn class(text: &[u8]) -> Option<(Item, &[u8])> {
    let (negated, mut rest) = match text {
        [b'!', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut ranges = Vec::new();
    loop {
        rest = match rest {
            [] => return None,
            // A bracket that comes first stands for itself.
            [b']', behind @ ..] if !ranges.is_empty() => return Some((Item { ranges, negated }, behind)),
            [first, b'-', last, behind @ ..] if *last != b']' => {
                ranges.push(*first..=*last);
                behind
            }
            [one, behind @ ..] => {
                ranges.push(*one..=*one);
                behind
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_kernel() {
        for (pattern, text, yes) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("k*", "kworker", true),
            ("k*", "ksh", true),
            ("k*", "bash", false),
            ("*sh", "bash", true),
            ("*sh", "shell", false),
            ("*s*s*", "systems", true),
            ("*ss*", "systems", false),
            ("?a?h", "bash", true),
            ("?a?h", "ash", false),
            ("[a-c]ash", "bash", true),
            ("[!a-c]ash", "bash", false),
            ("[!a-c]ash", "dash", true),
            ("[]]", "]", true),
            ("[", "[", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("**a", "bca", true),
        ] {
            let glob = Glob::parse(pattern).unwrap();
            assert_eq!(glob.matches(text.as_bytes()), yes, "{pattern:?} {text:?}");
        }
        assert!(Glob::parse("k*").unwrap().matches(b"ksh\0bash"));
        assert!(Glob::parse(&"a".repeat(64)).is_err());
    }
}
