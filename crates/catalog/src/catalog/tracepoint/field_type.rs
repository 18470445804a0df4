//! The type of a field of a tracepoint's formatted entry: what its format file says, with the names and the base that the print format uses.

use kestrel_compiler::context::ValueType;
use kestrel_kernel::tracefs::{Field, Format, LabelKind, Location, Printed};
use kestrel_trace::layout::Base;
use kestrel_trace::syscall::Meaning;

/// The type of a field: what the format file says, with the names and the base that its print format uses.
pub(super) fn value_type(format: &Format, field: &Field, user_pointers: bool) -> Option<ValueType> {
    let text = field.type_text.as_str();
    if field.location != Location::Inline {
        return (matches!(text, "char" | "const char")).then_some(ValueType::String);
    }
    if field.is_array() {
        let count = field.array_len?;
        if count == 0 || !field.size.is_multiple_of(count) {
            return None;
        }
        if matches!(text, "char" | "const char") {
            return Some(ValueType::CharArray { size: field.size });
        }
        let size = u8::try_from(field.size / count)
            .ok()
            .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
        let base = match text {
            // Bytes that are no text: addresses, digests.
            "unsigned char" | "u8" | "__u8" => Base::Hexadecimal,
            _ => base(format.base(field)),
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
        return Some(pointer_type(text, user_pointers));
    }
    scalar(format, field)
}

/// The type of an address that C declares so: `const char *`.
pub(super) fn pointer_type(declared: &str, user: bool) -> ValueType {
    let levels = declared
        .bytes()
        .filter(|byte| *byte == b'*')
        .count()
        .saturating_sub(1);
    let words = declared
        .split([' ', '*'])
        .filter(|word| !matches!(*word, "" | "const"));
    let spelling = words.collect::<Vec<_>>().join(" ");
    match (spelling.as_str(), levels) {
        ("char", 0) => ValueType::CString { user },
        ("void", _) => ValueType::Pointer { user },
        _ => ValueType::PointerTo {
            spelling,
            levels: levels as u8,
            user,
        },
    }
}

fn scalar(format: &Format, field: &Field) -> Option<ValueType> {
    let size = u8::try_from(field.size)
        .ok()
        .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
    if field.type_text == "bool" {
        return Some(ValueType::Bool);
    }
    Some(match format.printed(field) {
        Printed::Names(LabelKind::Symbolic, names) => ValueType::Enumeration {
            size,
            signed: field.signed,
            names: names.into(),
        },
        Printed::Names(LabelKind::Flags { .. }, names) => ValueType::Flags {
            size,
            names: names.into(),
        },
        Printed::Address => ValueType::Pointer { user: false },
        printed => ValueType::Integer {
            size,
            signed: field.signed,
            base: base(printed),
        },
    })
}

fn base(printed: Printed) -> Base {
    match printed {
        Printed::Hexadecimal => Base::Hexadecimal,
        Printed::Octal => Base::Octal,
        Printed::Device => Base::Named(Meaning::KernelDevice),
        _ => Base::Decimal,
    }
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
        \tfield:unsigned char mac[6];\toffset:64;\tsize:6;\tsigned:0;\n\
        \nprint fmt: \"comm=%s pid=%d (%d%%) flags=0x%lx name=%s vec=%s args %lx\", REC->comm, REC->pid, 3, REC->flags, \
        __get_str(name), __print_symbolic(REC->vec, { 0, \"HI\" }, { 1, \"TIMER\" }), REC->args[0]\n";

    #[test]
    fn types_follow_declaration_and_print_format() {
        let format = Format::parse(FORMAT).unwrap();
        let ty = |name: &str| value_type(&format, format.field(name).unwrap(), false).unwrap();
        assert_eq!(ty("comm"), ValueType::CharArray { size: 16 });
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
        let element = Box::new(ValueType::Integer {
            size: 1,
            signed: false,
            base: Base::Hexadecimal,
        });
        assert_eq!(ty("mac"), ValueType::Array { element, count: 6 });
    }
}
