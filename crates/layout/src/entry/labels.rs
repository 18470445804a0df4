//! Names of a field's values, taken from the tables in an event's print format (`__print_symbolic`, `__print_flags`) where they are literal.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Way in which names stand for numbers: by value, or by bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelKind {
    /// One name for one value.
    Symbolic,
    /// One name for each set bit (or group of bits), joined by the delimiter.
    Flags {
        /// The delimiter between two names: usually `|`.
        delimiter: String,
    },
}

/// A table of names for values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Way in which names combine.
    pub kind: LabelKind,
    /// The names are for the value and-ed with this; all ones if the format says nothing.
    pub mask: u64,
    /// Values and names, in the kernel's order.
    pub rows: Vec<(u64, String)>,
}

impl Labels {
    /// Finds the table for `field` in a print format; `None` if there is none, or it is made of more than constants. `constant` gives the
    /// value of an enumerator by name: the kernel does not replace all of them by numbers, its BTF knows them.
    pub fn find(print_fmt: &str, field: &str, constant: &dyn Fn(&str) -> Option<i64>) -> Option<Self> {
        MACROS.iter().find_map(|(macro_name, flags)| {
            let mut rest = print_fmt;
            loop {
                rest = &rest[rest.find(macro_name)? + macro_name.len()..];
                if let Some(labels) = table(rest, field, *flags, constant) {
                    return Some(labels);
                }
            }
        })
    }
}

/// The macros that introduce a table, and whether it is one of flags.
const MACROS: &[(&str, bool)] = &[
    ("__print_symbolic(", false),
    ("__print_symbolic_u64(", false),
    ("__print_flags(", true),
    ("__print_flags_u64(", true),
];

/// `text` begins behind the opening parenthesis.
fn table(text: &str, field: &str, flags: bool, constant: &dyn Fn(&str) -> Option<i64>) -> Option<Labels> {
    let mut scanner = Scanner { rest: text, constant };
    let mask = scanner.field_with_mask(field)?;
    let kind = if flags {
        scanner.expect(",")?;
        LabelKind::Flags {
            delimiter: scanner.string()?,
        }
    } else {
        LabelKind::Symbolic
    };
    let mut rows = Vec::new();
    while scanner.expect(",").is_some() {
        scanner.expect("{")?;
        let value = scanner.expression(0)?;
        scanner.expect(",")?;
        // Some tables end with a row of -1 and a null pointer.
        let null = ["0", "NULL", "((void *)0)"]
            .iter()
            .any(|null| scanner.expect(null).is_some());
        if !null {
            rows.push((value, scanner.string()?));
        }
        scanner.expect("}")?;
    }
    scanner.expect(")")?;
    rows.retain(|(_, name)| !name.is_empty());
    (!rows.is_empty()).then_some(Labels { kind, mask, rows })
}

/// Reads C from the front of a text. `None` means: not of the literal kind.
struct Scanner<'a> {
    rest: &'a str,
    constant: &'a dyn Fn(&str) -> Option<i64>,
}

impl Scanner<'_> {
    fn expect(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn word(&mut self) -> Option<String> {
        let text = self.rest.trim_start();
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// `REC->field`, in parentheses or under a cast if need be, perhaps `& constant`.
    fn field_with_mask(&mut self, field: &str) -> Option<u64> {
        let mut depth = 0;
        loop {
            self.skip_cast();
            if self.expect("(").is_some() {
                depth += 1;
            } else {
                break;
            }
        }
        self.expect("REC->")?;
        if self.word()? != field {
            return None;
        }
        let mut mask = u64::MAX;
        loop {
            if self.expect("&").is_some() {
                mask &= self.expression(BINARY_AND + 1)?;
            } else if depth > 0 && self.expect(")").is_some() {
                depth -= 1;
            } else {
                return (depth == 0).then_some(mask);
            }
        }
    }

    /// A C string literal; escapes other than `\n`, `\t` stand for themselves. Adjacent literals join.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        self.expect("\"")?;
        loop {
            let mut chars = self.rest.char_indices();
            loop {
                match chars.next()? {
                    (at, '"') => {
                        self.rest = &self.rest[at + 1..];
                        break;
                    }
                    (_, '\\') => text.push(match chars.next()?.1 {
                        'n' => '\n',
                        't' => '\t',
                        other => other,
                    }),
                    (_, other) => text.push(other),
                }
            }
            if self.expect("\"").is_none() {
                return Some(text);
            }
        }
    }

    /// A constant expression of operators that bind at least as strongly as `level`, in 64-bit arithmetic.
    fn expression(&mut self, level: usize) -> Option<u64> {
        let mut value = self.operand()?;
        'operators: loop {
            for (binding, token, apply) in BINARY {
                let text = self.rest.trim_start();
                // `&&`, `||` and comparisons are not for tables.
                if *binding >= level && text.starts_with(token) && !text.starts_with(&token.repeat(2)) {
                    self.expect(token)?;
                    value = apply(value, self.expression(binding + 1)?);
                    continue 'operators;
                }
            }
            return Some(value);
        }
    }

    fn operand(&mut self) -> Option<u64> {
        self.skip_cast();
        if self.expect("-").is_some() {
            return self.operand().map(u64::wrapping_neg);
        }
        if self.expect("~").is_some() {
            return self.operand().map(|value| !value);
        }
        if self.expect("(").is_some() {
            let value = self.expression(0)?;
            self.expect(")")?;
            return Some(value);
        }
        if self.expect("'").is_some() {
            let character = self.rest.chars().next().filter(char::is_ascii)?;
            self.rest = &self.rest[1..];
            self.expect("'")?;
            return Some(u64::from(u32::from(character)));
        }
        let word = self.word()?;
        number(&word).or_else(|| (self.constant)(&word).map(|value| value as u64))
    }

    /// Passes over `(unsigned long)` and the like: letters in parentheses, with something to apply them to behind.
    fn skip_cast(&mut self) {
        while let Some(inside) = self.rest.trim_start().strip_prefix('(') {
            let Some((name, behind)) = inside.split_once(')') else {
                return;
            };
            let is_type = name
                .trim()
                .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | '*'));
            if !is_type {
                return;
            }
            self.rest = behind;
        }
    }
}

type Apply = fn(u64, u64) -> u64;

/// A table: C's binary operators that occur in such tables, how strongly they bind, what they do.
const BINARY: &[(usize, &str, Apply)] = &[
    (1, "|", |a, b| a | b),
    (2, "^", |a, b| a ^ b),
    (BINARY_AND, "&", |a, b| a & b),
    (4, "<<", |a, b| {
        u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0)
    }),
    (4, ">>", |a, b| {
        u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0)
    }),
    (5, "+", u64::wrapping_add),
    (5, "-", u64::wrapping_sub),
    (6, "*", u64::wrapping_mul),
];
const BINARY_AND: usize = 3;

/// A C integer literal, its suffix ignored.
fn number(word: &str) -> Option<u64> {
    let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    match word.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(print: &str, field: &str) -> Option<Labels> {
        Labels::find(print, field, &|_| None)
    }

    fn rows(labels: &Labels) -> Vec<(u64, &str)> {
        labels
            .rows
            .iter()
            .map(|(value, name)| (*value, name.as_str()))
            .collect()
    }

    #[test]
    fn symbolic_table_of_softirqs() {
        let print =
            r#""vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })"#;
        let labels = find(print, "vec").unwrap();
        assert_eq!(labels.kind, LabelKind::Symbolic);
        assert_eq!(rows(&labels), [(0, "HI"), (1, "TIMER")]);
        assert_eq!(find(print, "action"), None);
    }

    #[test]
    fn task_state_of_sched_switch_has_a_mask() {
        let print = r#"(REC->prev_state & ((((0x0 | 0x1 | 0x2) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }) : "R""#;
        let labels = find(print, "prev_state").unwrap();
        assert_eq!(
            labels.kind,
            LabelKind::Flags {
                delimiter: "|".into()
            }
        );
        assert_eq!(labels.mask, 7);
        assert_eq!(rows(&labels), [(1, "S"), (2, "D")]);
    }

    #[test]
    fn casts_shifts_and_suffixes() {
        let print = r#"__print_flags(REC->gfp_flags, "|", {( unsigned long)(((( gfp_t)((((1UL))) << (3)))) | 0x20u), "A"}, {(1 << 4), "B"}, {-1, "C"}, {010, "D"})"#;
        let labels = find(print, "gfp_flags").unwrap();
        assert_eq!(rows(&labels), [(0x28, "A"), (16, "B"), (u64::MAX, "C"), (8, "D")]);
    }

    #[test]
    fn the_right_table_among_several_and_none_for_calls() {
        let print = r#"__print_symbolic(REC->a, {1, "one"}), __print_symbolic((REC->b), {2, "t" "wo"}), __print_symbolic(f(REC->c), {1, "x"}), __print_symbolic(REC->d, {NAME, "x"})"#;
        assert_eq!(rows(&find(print, "b").unwrap()), [(2, "two")]);
        assert_eq!(find(print, "c"), None);
        assert_eq!(find(print, "d"), None);
    }

    #[test]
    fn enumerators_by_name_and_tables_with_an_end_mark() {
        let print = r#"__print_symbolic(REC->mode, { MODE_ABS, "ABS" }, { MODE_REL | 8, "REL" }, { -1, ((void *)0) })"#;
        assert_eq!(find(print, "mode"), None);
        let constant = |name: &str| ["MODE_ABS", "MODE_REL"].iter().position(|known| *known == name);
        let labels = Labels::find(print, "mode", &|name| constant(name).map(|value| value as i64)).unwrap();
        assert_eq!(rows(&labels), [(0, "ABS"), (9, "REL")]);
    }
}
