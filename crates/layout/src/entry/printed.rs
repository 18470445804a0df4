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
    /// `254,0`: the number of a device as the kernel has it, its major number above 20 bits of the minor one.
    Device,
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
            Some(_) if field.size == 4 && is_device(self, &field.name) => Printed::Device,
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

/// Whether the print format shows a field by `MAJOR` and `MINOR`, one behind the other, as the kernel's headers spell them: `REC->dev >> 20` and
/// `REC->dev & ((1U << 20) - 1)`, each in its own brackets.
fn is_device(format: &Format, field: &str) -> bool {
    let Some(end) = (format.print_fmt.strip_prefix('"')).and_then(closing_quote) else {
        return false;
    };
    let bare = |argument: &str| -> String {
        let argument = argument.replace("(unsigned int)", "");
        argument.replace(['(', ')', ' '], "")
    };
    let arguments: Vec<String> = split_arguments(&format.print_fmt[end + 2..]).map(bare).collect();
    let (major, minor) = (format!("REC->{field}>>20"), format!("REC->{field}&1U<<20-1"));
    arguments
        .windows(2)
        .any(|pair| pair == [major.as_str(), minor.as_str()])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_are_shown_by_their_two_parts() {
        let field = |name: &str, offset: u32| {
            format!("\tfield:dev_t {name};\toffset:{offset};\tsize:4;\tsigned:0;\n")
        };
        let fields = [
            field("dev", 8),
            field("old_dev", 12),
            field("major", 16),
            field("minor", 20),
        ]
        .concat();
        let text = format!(
            "name: block_bio_remap\nID: 7\nformat:\n{fields}\nprint fmt: \"%d,%d %s <- (%d,%d) %u %u\", ((unsigned int) ((REC->dev) >> 20)), \
             ((unsigned int) ((REC->dev) & ((1U << 20) - 1))), \"b, c\", ((unsigned int) ((REC->old_dev) >> 20)), \
             ((unsigned int) ((REC->old_dev) & ((1U << 20) - 1))), REC->major >> 20, REC->minor\n"
        );
        let format = Format::parse(&text).unwrap();
        let printed =
            ["dev", "old_dev", "major", "minor"].map(|name| format.printed(format.field(name).unwrap()));
        use Printed::{Decimal, Device};
        assert_eq!(printed, [Device, Device, Decimal, Decimal]);
    }
}
