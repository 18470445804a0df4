//! Presentation of a field by its print format: base, and names of values.

use super::{Field, Format, LabelKind};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Printed form of a field's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    /// `42`
    Decimal,
    /// `0x2a`
    Hexadecimal,
    /// `052`
    Octal,
    /// An address: eight bytes, shown by `%p` and its kin.
    Address,
    /// By names: one for each value, or one for each bit.
    Names(LabelKind, Vec<(i64, String)>),
}

/// Names that a print format gives by a condition instead of a table: field, value, name.
const MORE_NAMES: &[(&str, i64, &str)] = &[("prev_state", 0, "R"), ("prev_state", 0x100, "R+")];

impl Format {
    /// How the print format shows the number in `field`.
    pub fn printed(&self, field: &Field) -> Printed {
        if let Some(labels) = self.labels(&field.name) {
            let more = MORE_NAMES.iter().filter(|(name, ..)| *name == field.name);
            let more = more.map(|(_, value, name)| (*value, (*name).to_owned()));
            let own = labels
                .rows
                .into_iter()
                .map(|(value, name)| (value.cast_signed(), name));
            return Printed::Names(labels.kind, own.chain(more).collect());
        }
        match printed_as(self, &field.name) {
            Some(spec) if field.size == 8 && spec.starts_with('p') => Printed::Address,
            _ => self.base(field),
        }
    }

    /// The base in which the print format shows the numbers in `field`, of which there may be several.
    pub fn base(&self, field: &Field) -> Printed {
        match printed_as(self, &field.name) {
            Some(spec) if spec.contains(['x', 'X', 'p']) => Printed::Hexadecimal,
            Some(spec) if spec.ends_with('o') => Printed::Octal,
            _ => Printed::Decimal,
        }
    }
}

/// The conversion (`lx`, `d`, `pS`) that the print format applies to a field: conversions and arguments, counted off together.
fn printed_as(format: &Format, field: &str) -> Option<String> {
    let text = format.print_fmt.strip_prefix('"')?;
    let end = closing_quote(text)?;
    let (pattern, arguments) = text.split_at(end);
    let wanted = format!("REC->{field}");
    let index = split_arguments(&arguments[1..]).position(|a| mentions(a, &wanted))?;
    conversions(pattern).nth(index)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|b| {
        let closes = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        closes
    })
}

/// Whether an argument names the field itself, not one whose name begins alike.
fn mentions(argument: &str, wanted: &str) -> bool {
    argument.match_indices(wanted).any(|(at, _)| {
        let after = argument[at + wanted.len()..].bytes().next();
        !after.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// Arguments at the top level, after the pattern.
fn split_arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    let mut quoted = false;
    text.split(move |c: char| {
        match c {
            '"' => quoted = !quoted,
            '(' | '{' | '[' if !quoted => depth += 1,
            ')' | '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    })
    .skip(1)
}

fn conversions(pattern: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = pattern;
    core::iter::from_fn(move || {
        loop {
            let at = rest.find('%')?;
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                rest = after;
                continue;
            }
            let spec = rest.trim_start_matches([
                '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '-', '+', '#', ' ', '.',
            ]);
            let end = spec.find(|c: char| !matches!(c, 'l' | 'h' | 'z' | 'L' | 'q'))?;
            let letters = spec[end..]
                .chars()
                .take(if spec[end..].starts_with('p') { 2 } else { 1 });
            let found: String = letters.filter(char::is_ascii_alphabetic).collect();
            rest = &spec[end..];
            return Some(found);
        }
    })
}
