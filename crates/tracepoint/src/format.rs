//! An event in the form of tracefs's `format` file.

use crate::event::Event;
use crate::events::events;
use crate::value::{Field, FieldKind};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write as _;
use kestrel_layout::format::{Piece, Style, pieces};

/// Fields that every event of tracefs begins with: C's type and name, where it lies, its size, whether it is signed.
const COMMON: [(&str, u32, u32, bool); 4] = [
    ("unsigned short common_type", 0, 2, false),
    ("unsigned char common_flags", 2, 1, false),
    ("unsigned char common_preempt_count", 3, 1, false),
    ("int common_pid", 4, 4, true),
];

impl Event {
    /// The event as tracefs describes one: its name and number, its fields and where they lie in a record of tracefs's kind, its print format in C.
    pub fn format(&self) -> String {
        let number = events().iter().position(|event| core::ptr::eq(*event, self));
        let number = number.map_or(0, |at| at + 1);
        let mut text = format!("name: {}\nID: {number}\nformat:\n", self.name());
        for (field, offset, size, signed) in COMMON {
            line(&mut text, field, (offset, size), signed);
        }
        text.push('\n');
        let mut offset = 8_u32;
        for field in self.fields() {
            let FieldRoom { size, align, signed } = place(field.kind);
            offset = offset.next_multiple_of(align);
            line(&mut text, &declaration(field), (offset, size), signed);
            offset += size;
        }
        let (format, arguments) = printf(self);
        let _ = write!(text, "\nprint fmt: \"{format}\"{arguments}\n");
        text
    }
}

fn line(text: &mut String, field: &str, (offset, size): (u32, u32), signed: bool) {
    let signed = u8::from(signed);
    let _ = writeln!(
        text,
        "\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
    );
}

struct FieldRoom {
    size: u32,
    align: u32,
    signed: bool,
}

fn place(kind: FieldKind) -> FieldRoom {
    let (size, align, signed) = match kind {
        FieldKind::Integer { size, signed } => (u32::from(size), u32::from(size), signed),
        FieldKind::Float { size } => (u32::from(size), u32::from(size), true),
        FieldKind::Bool => (1, 1, false),
        FieldKind::Text { size } => (u32::from(size), 1, false),
        // Where it is in the record, and how long.
        FieldKind::String | FieldKind::Bytes => (4, 4, false),
        FieldKind::Array { size, signed, count } => {
            (u32::from(size) * u32::from(count), u32::from(size), signed)
        }
    };
    FieldRoom { size, align, signed }
}

/// `char comm[16]`, `__data_loc char[] path`, `pid_t pid`.
fn declaration(field: &Field) -> String {
    let Field { name, c_type, kind } = field;
    match kind {
        FieldKind::String | FieldKind::Bytes => format!("__data_loc {c_type}[] {name}"),
        FieldKind::Text { size } => format!("{c_type} {name}[{size}]"),
        FieldKind::Array { count, .. } => format!("{c_type} {name}[{count}]"),
        _ => format!("{c_type} {name}"),
    }
}

/// The print format with C's conversions, and the arguments behind it.
fn printf(event: &Event) -> (String, String) {
    let (mut format, mut arguments) = (String::new(), String::new());
    for piece in pieces(event.print()) {
        match piece {
            Piece::Text(text) => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                format.push_str(&text.replace('%', "%%").replace('\n', "\\n"));
            }
            Piece::Field { name, style } => {
                let Some(field) = event.fields().iter().find(|field| field.name == name) else {
                    continue;
                };
                let (conversion, argument) = conversion(field, style);
                format.push_str(&conversion);
                let _ = write!(arguments, ", {argument}");
            }
        }
    }
    (format, arguments)
}

fn conversion(field: &Field, style: Style) -> (String, String) {
    let name = field.name;
    let plain = format!("REC->{name}");
    let flags = format!(
        "{}{}{}",
        if style.is_marked { "#" } else { "" },
        if style.is_filled { "0" } else { "" },
        if style.width > 0 {
            style.width.to_string()
        } else {
            String::new()
        }
    );
    match field.kind {
        FieldKind::Integer { size, signed } => {
            let long = if size == 8 { "ll" } else { "" };
            let letter = match (style.is_hexadecimal, signed) {
                (true, _) => "x",
                (false, true) => "d",
                (false, false) => "u",
            };
            (format!("%{flags}{long}{letter}"), plain)
        }
        FieldKind::Float { .. } => (format!("%{flags}g"), plain),
        FieldKind::Bool => (format!("%{flags}d"), plain),
        FieldKind::Text { .. } => (format!("%{flags}s"), plain),
        FieldKind::String => (format!("%{flags}s"), format!("__get_str({name})")),
        FieldKind::Bytes => (
            "%s".to_owned(),
            format!("__print_array(__get_dynamic_array({name}), __get_dynamic_array_len({name}), 1)"),
        ),
        FieldKind::Array { size, count, .. } => (
            "%s".to_owned(),
            format!("__print_array(REC->{name}, {count}, {size})"),
        ),
    }
}
