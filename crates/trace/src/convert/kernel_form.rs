//! Events as the kernel's own tracers have them: a text in the form of tracefs's `format` file, and records whose bytes lie as it says. `perf` and `trace-cmd`
//! read both with the same library (libtraceevent).
//!
//! ```text
//! type u16 | flags u8 | preemption count u8 | thread i32 | fields … | strings and words of variable length
//! ```

use super::stacks::Chain;
use crate::event::EventClass;
use crate::layout::{Base, Field, FieldPlace, FieldType, Names};
use crate::print::socket::is_address;
use crate::print::value;
use crate::record::Record;
use crate::symbol::Symbols;
use crate::syscall::Meaning;
use crate::value::Value;

/// Bytes that all events begin with: their number, flags, preemption count, thread.
const COMMON: usize = 8;
/// Fields that such events have already, where records have fields of these names, and their offsets.
const OF_COMMON: [(&str, usize); 2] = [("common_flags", 2), ("common_preempt_count", 3)];

/// An event in the kernel's form.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// The name before the last colon.
    pub(super) system: String,
    /// The `format`.
    pub(super) text: String,
    number: u16,
    fields: Vec<Slot>,
    /// Where what has no fixed length begins.
    fixed: usize,
}

/// A field: its index among the event's, and where its value lies in both records.
#[derive(Clone, Debug)]
struct Slot {
    index: usize,
    to: usize,
    kind: FieldSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldSource {
    /// Bytes of the record: offset and length.
    Bytes(usize, usize),
    /// The low byte of a number.
    Low,
    /// Text for people.
    Text,
    /// Bytes of any number.
    Memory,
}

impl Form {
    /// The form of an event; `chain` are fields that lie elsewhere.
    pub(super) fn new(event: &EventClass, chain: Chain) -> Self {
        let (system, name) = event.name.rsplit_once(':').unwrap_or(("kestrel", &event.name));
        let mut form = Self {
            system: system.to_owned(),
            text: String::new(),
            number: event.id.0,
            fields: Vec::new(),
            fixed: COMMON,
        };
        let (mut lines, mut words, mut values) = (String::new(), Vec::new(), Vec::new());
        let mut names: Vec<String> = Vec::new();
        for (index, field) in event.layout.fields().iter().enumerate() {
            if !field.is_shown() || chain.has(index) {
                continue;
            }
            // Every entry of the kernel begins with these, so that the field needs no place of its own.
            if let Some((_, to)) = OF_COMMON.iter().find(|(name, _)| *name == field.name) {
                let (to, kind) = (*to, FieldSource::Low);
                form.fields.push(Slot { index, to, kind });
                continue;
            }
            // Two names of ours may give one identifier of C.
            let mut name = identifier(&field.name);
            while names.contains(&name) {
                name.push('_');
            }
            let shape = Shape::of(field, &name);
            let to = form.fixed.next_multiple_of(shape.align);
            form.fixed = to + shape.size;
            let kind = shape.kind;
            form.fields.push(Slot { index, to, kind });
            lines.push_str(&format!(
                "\tfield:{};\toffset:{to};\tsize:{};\tsigned:{};\n",
                shape.declared,
                shape.size,
                u8::from(shape.signed)
            ));
            words.push(format!("{name}={}", shape.word));
            values.push(shape.value);
            names.push(name);
        }
        form.fixed = form.fixed.next_multiple_of(8);
        let values: String = values.iter().map(|value| format!(", {value}")).collect();
        form.text = format!(
            "name: {}\nID: {}\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
             \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
             {lines}\nprint fmt: \"{}\"{values}\n",
            identifier(name),
            form.number,
            words.join(" "),
        );
        form
    }

    /// Appends a record.
    pub(super) fn write(&self, record: &Record<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.fixed, 0);
        out[start..start + 2].copy_from_slice(&self.number.to_le_bytes());
        out[start + 4..start + 8].copy_from_slice(&record.tid.to_le_bytes());
        for slot in &self.fields {
            let Some(field) = record.event.layout.fields().get(slot.index) else {
                continue;
            };
            let to = start + slot.to;
            match slot.kind {
                FieldSource::Bytes(from, size) => {
                    if let Some(bytes) = record.bytes.get(from..from + size) {
                        out[to..to + size].copy_from_slice(bytes);
                    }
                }
                FieldSource::Low => out[to] = record.value(field).as_u64().unwrap_or(0) as u8,
                FieldSource::Memory => {
                    let from = out.len();
                    // A text that could not be read is empty.
                    if let Value::Text(bytes) | Value::CutText(bytes) = record.value(field) {
                        out.extend_from_slice(bytes);
                    }
                    locate(start, to, from, out);
                }
                FieldSource::Text => {
                    let from = out.len();
                    match record.value(field) {
                        Value::Text(text) if !text.contains(&0) => out.extend_from_slice(text),
                        other => value(other, symbols, out),
                    }
                    out.push(0);
                    locate(start, to, from, out);
                }
            }
        }
        out.resize(start + (out.len() - start).next_multiple_of(4), 0);
    }
}

/// Notes at `to` that what lies between `from` and the end is a field (`__data_loc`): its length and its place, 16 bits each.
fn locate(start: usize, to: usize, from: usize, out: &mut Vec<u8>) {
    let (at, mut length) = (from - start, out.len() - from);
    if at > usize::from(u16::MAX) {
        out.truncate(from);
        length = 0;
    } else if length > usize::from(u16::MAX) {
        length = usize::from(u16::MAX);
        out.truncate(from + length);
        if let Some(last) = out.last_mut() {
            *last = 0;
        }
    }
    let located = (length as u32) << 16 | at as u32 & 0xffff;
    out[to..to + 4].copy_from_slice(&located.to_le_bytes());
}

/// Declared type and print format of a field.
struct Shape {
    declared: String,
    size: usize,
    align: usize,
    signed: bool,
    /// In the print format: `%d`.
    word: &'static str,
    /// The argument: `REC->name`.
    value: String,
    kind: FieldSource,
}

impl Shape {
    fn of(field: &Field, name: &str) -> Self {
        let record = format!("REC->{name}");
        match (&field.ty, field.place) {
            (
                FieldType::Integer {
                    base: Base::Float, ..
                },
                _,
            ) => Self::text(name),
            (
                &FieldType::Integer {
                    size: size @ 4,
                    base: Base::Named(Meaning::KernelDevice),
                    ..
                },
                FieldPlace::Fixed { offset },
            ) => {
                let major = format!("((unsigned int) (({record}) >> 20))");
                let minor = format!("((unsigned int) (({record}) & ((1U << 20) - 1)))");
                Self::number(name, size, false, offset, "%u,%u", format!("{major}, {minor}"))
            }
            (&FieldType::Integer { size, signed, base }, FieldPlace::Fixed { offset }) => {
                let (signed, word) = match (base, size) {
                    (Base::Hexadecimal, 8) => (false, "0x%llx"),
                    (Base::Hexadecimal, _) => (false, "0x%x"),
                    (Base::Octal, 8) => (false, "%#llo"),
                    (Base::Octal, _) => (false, "%#o"),
                    _ => (signed, decimal(size, signed)),
                };
                Self::number(name, size, signed, offset, word, record)
            }
            (FieldType::Bool, FieldPlace::Fixed { offset }) => {
                let one = Self::number(name, 1, false, offset, "%u", record);
                Self {
                    declared: format!("bool {name}"),
                    ..one
                }
            }
            (FieldType::Pointer { .. }, FieldPlace::Fixed { offset }) => {
                Self::number(name, 8, false, offset, "0x%llx", record)
            }
            (FieldType::Enumeration { size, signed, names }, FieldPlace::Fixed { offset }) => {
                let word = decimal(*size, *signed);
                // libtraceevent reads numbers without their signs.
                let bits = u64::MAX >> (64 - u32::from(*size).clamp(1, 8) * 8);
                let number = |value: i64| (value.cast_unsigned() & bits).to_string();
                match table(names, number) {
                    Some(table) => {
                        let value = format!("__print_symbolic({record}, {table})");
                        Self::number(name, *size, *signed, offset, "%s", value)
                    }
                    None => Self::number(name, *size, *signed, offset, word, record),
                }
            }
            (FieldType::Flags { size, names }, FieldPlace::Fixed { offset }) => {
                let none = names.iter().find(|(bits, name)| *bits == 0 && is_plain(name));
                let some: Names = names.iter().filter(|(bits, _)| *bits != 0).cloned().collect();
                let word = if *size == 8 { "0x%llx" } else { "0x%x" };
                match table(&some, |bits| format!("{:#x}", bits.cast_unsigned())) {
                    Some(table) => {
                        let none = none.map_or("0x0", |(_, name)| name);
                        let value =
                            format!("{record} ? __print_flags({record}, \"|\", {table}) : \"{none}\"");
                        Self::number(name, *size, false, offset, "%s", value)
                    }
                    None => Self::number(name, *size, false, offset, word, record),
                }
            }
            (&FieldType::CharArray { size }, FieldPlace::Fixed { offset }) if size > 0 => Self {
                declared: format!("char {name}[{size}]"),
                size: size as usize,
                align: 1,
                signed: false,
                word: "%s",
                value: record,
                kind: FieldSource::Bytes(offset as usize, size as usize),
            },
            (FieldType::Array { element, count }, FieldPlace::Fixed { offset })
                if let FieldType::Integer { size, .. } = **element
                    && *count > 0 =>
            {
                // Addresses of sockets, as the kernel's own events print them.
                let (word, value) = match count {
                    _ if !is_address(&field.name, &field.ty) => {
                        ("%s", format!("__print_array({record}, {count}, {size})"))
                    }
                    4 => ("%pI4", record),
                    16 => ("%pI6c", record),
                    _ => ("%pISpc", record),
                };
                let one = Self::number(name, size, false, offset, word, value);
                let bytes = usize::from(size) * *count as usize;
                Self {
                    declared: format!("{}[{count}]", one.declared),
                    size: bytes,
                    kind: FieldSource::Bytes(offset as usize, bytes),
                    ..one
                }
            }
            (FieldType::Bytes { .. } | FieldType::Buffer { .. }, _) => Self {
                declared: format!("__data_loc u8[] {name}"),
                value: format!("__print_hex(__get_dynamic_array({name}), __get_dynamic_array_len({name}))"),
                kind: FieldSource::Memory,
                ..Self::text(name)
            },
            _ => Self::text(name),
        }
    }

    fn number(name: &str, size: u8, signed: bool, offset: u32, word: &'static str, value: String) -> Self {
        let ty = match (size, signed) {
            (1, true) => "s8",
            (1, false) => "u8",
            (2, true) => "short",
            (2, false) => "unsigned short",
            (4, true) => "int",
            (4, false) => "unsigned int",
            (_, true) => "long long",
            (_, false) => "unsigned long long",
        };
        let size = usize::from(size);
        Self {
            declared: format!("{ty} {name}"),
            size,
            align: size.max(1),
            signed,
            word,
            value,
            kind: FieldSource::Bytes(offset as usize, size),
        }
    }

    fn text(name: &str) -> Self {
        Self {
            declared: format!("__data_loc char[] {name}"),
            size: 4,
            align: 4,
            signed: false,
            word: "%s",
            value: format!("__get_str({name})"),
            kind: FieldSource::Text,
        }
    }
}

/// How a decimal number of so many bytes is printed: libtraceevent has its sign from that.
fn decimal(size: u8, signed: bool) -> &'static str {
    match (size, signed) {
        (1, true) => "%hhd",
        (2, true) => "%hd",
        (4, true) => "%d",
        (_, true) => "%lld",
        (8, false) => "%llu",
        (_, false) => "%u",
    }
}

/// `{ 1, "name" }, …`; none where no name can stand there.
fn table(names: &Names, number: impl Fn(i64) -> String) -> Option<String> {
    let plain = names.iter().filter(|(_, name)| is_plain(name));
    let rows: Vec<String> = plain
        .map(|(value, name)| format!("{{ {}, \"{name}\" }}", number(*value)))
        .collect();
    (!rows.is_empty()).then(|| rows.join(", "))
}

/// Whether a name can stand in quotes in a print format.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'%'))
}

/// The name as C and libtraceevent take one.
fn identifier(name: &str) -> String {
    let mut all: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if all.is_empty() {
        all.push('_');
    }
    all
}
