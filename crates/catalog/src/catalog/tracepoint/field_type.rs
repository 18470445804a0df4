//! The type of a field of a tracepoint's formatted entry: what its format file says, with the names and the base that the print format uses.

use kestrel_compiler::context::ValueType;
use kestrel_kernel::tracefs::{Field, Format, LabelKind, Location};
use kestrel_trace::layout::{Base, Names};

/// The type of a field: what the format file says, with the names and the base that its print format uses.
pub(super) fn value_type(format: &Format, field: &Field, user_pointers: bool) -> Option<ValueType> {
    let text = field.type_text.as_str();
    let is_char =
        matches!(text, "char" | "const char" | "unsigned char" | "u8" | "__u8") && !text.contains('*');
    if field.location != Location::Inline {
        return (matches!(text, "char" | "const char")).then_some(ValueType::String);
    }
    if field.is_array() {
        let count = field.array_len?;
        if count == 0 || !field.size.is_multiple_of(count) {
            return None;
        }
        if matches!(text, "char" | "const char") {
            return Some(ValueType::Text { size: field.size });
        }
        let size = u8::try_from(field.size / count)
            .ok()
            .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
        let base = if is_char {
            Base::Hexadecimal
        } else {
            base(format, field)
        };
        let element = ValueType::Integer {
            size,
            signed: field.signed,
            base,
        };
        return Some(ValueType::Array {
            element: Box::new(element),
            count,
        });
    }
    if text.ends_with('*') {
        let user = user_pointers;
        let levels = text.bytes().filter(|byte| *byte == b'*').count() - 1;
        let words = text
            .split([' ', '*'])
            .filter(|word| !matches!(*word, "" | "const"));
        let spelling = words.collect::<Vec<_>>().join(" ");
        return Some(match (spelling.as_str(), levels) {
            ("char", 0) => ValueType::CString { user },
            ("void", _) => ValueType::Pointer { user },
            _ => ValueType::PointerTo {
                spelling,
                levels: levels as u8,
                user,
            },
        });
    }
    scalar(format, field)
}

fn scalar(format: &Format, field: &Field) -> Option<ValueType> {
    let size = u8::try_from(field.size)
        .ok()
        .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
    if field.type_text == "bool" {
        return Some(ValueType::Bool);
    }
    if let Some(labels) = format.labels(&field.name) {
        let more = MORE_NAMES.iter().filter(|(name, ..)| *name == field.name);
        let more = more.map(|(_, value, name)| (*value, (*name).to_owned()));
        let names: Names = labels
            .rows
            .iter()
            .map(|(v, n)| (v.cast_signed(), n.clone()))
            .chain(more)
            .collect();
        return Some(match labels.kind {
            LabelKind::Symbolic => ValueType::Enumeration {
                size,
                signed: field.signed,
                names,
            },
            LabelKind::Flags { .. } => ValueType::Flags { size, names },
        });
    }
    if size == 8 && printed_as(format, &field.name).is_some_and(|spec| spec.starts_with('p')) {
        return Some(ValueType::Pointer { user: false });
    }
    Some(ValueType::Integer {
        size,
        signed: field.signed,
        base: base(format, field),
    })
}

/// Names that a print format gives by a condition instead of a table: field, value, name.
const MORE_NAMES: &[(&str, i64, &str)] = &[("prev_state", 0, "R"), ("prev_state", 0x100, "R+")];

fn base(format: &Format, field: &Field) -> Base {
    match printed_as(format, &field.name) {
        Some(spec) if spec.contains(['x', 'X', 'p']) => Base::Hexadecimal,
        Some(spec) if spec.ends_with('o') => Base::Octal,
        _ => Base::Decimal,
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
    std::iter::from_fn(move || {
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

    const FORMAT: &str = "name: demo\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long flags;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int vec;\toffset:44;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long args[2];\toffset:48;\tsize:16;\tsigned:0;\n\
        \nprint fmt: \"comm=%s pid=%d (%d%%) flags=0x%lx name=%s vec=%s args %lx\", REC->comm, REC->pid, 3, REC->flags, \
        __get_str(name), __print_symbolic(REC->vec, { 0, \"HI\" }, { 1, \"TIMER\" }), REC->args[0]\n";

    #[test]
    fn types_follow_declaration_and_print_format() {
        let format = Format::parse(FORMAT).unwrap();
        let ty = |name: &str| value_type(&format, format.field(name).unwrap(), false).unwrap();
        assert_eq!(ty("comm"), ValueType::Text { size: 16 });
        assert_eq!(
            ty("pid"),
            ValueType::Integer {
                size: 4,
                signed: true,
                base: Base::Decimal
            }
        );
        assert_eq!(
            ty("flags"),
            ValueType::Integer {
                size: 8,
                signed: false,
                base: Base::Hexadecimal
            }
        );
        assert_eq!(ty("name"), ValueType::String);
        assert!(matches!(ty("vec"), ValueType::Enumeration { names, .. } if names.len() == 2));
        let element = Box::new(ValueType::Integer {
            size: 8,
            signed: false,
            base: Base::Hexadecimal,
        });
        assert_eq!(ty("args"), ValueType::Array { element, count: 2 });
    }
}
