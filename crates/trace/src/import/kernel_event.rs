//! Events of the kernel's own tracer: from their `format` to an event class, and from their entries to records of it. `convert::kernel_form` has the opposite direction.

use super::draft::Draft;
use crate::event::{EventClass, EventId};
use crate::layout::{Base, FieldType, Layout, Space};
use crate::packet::CAPACITY;
use crate::syscall::Meaning;
use kestrel_layout::entry::{Field, Format, LabelKind, Location, Printed};

/// An event whose entries are read.
#[derive(Clone, Debug)]
pub(super) struct KernelEvent {
    pub(super) class: EventClass,
    slots: Vec<Slot>,
    /// Number of the class's own fields; behind them are those that lie elsewhere.
    pub(super) own: usize,
}

/// Place of a field in an entry.
#[derive(Clone, Debug)]
struct Slot {
    from: usize,
    size: usize,
    kind: FieldLocation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldLocation {
    Fixed,
    DataLoc,
    RelLoc,
    /// From there to the end of the entry.
    Rest,
}

/// Most bytes of a text; longer ones are cut where the record ends.
const LONGEST: u32 = CAPACITY;

impl KernelEvent {
    /// The event that a format describes; `more` are fields that do not lie in its entries. What cannot be kept is added to the remarks.
    pub(super) fn new(
        system: &str,
        format: &Format,
        id: EventId,
        more: Vec<(String, FieldType)>,
        remarks: &mut Vec<String>,
    ) -> Self {
        let name = format!("{system}:{}", format.name);
        let mut fields = Vec::new();
        let mut slots = Vec::new();
        // Room for a header and a few words of variable fields.
        let mut room = CAPACITY / 2;
        for field in &format.fields {
            let (kind, ty) = shape(format, field, system);
            let size = ty.fixed_size();
            if size > room {
                remarks.push(format!(
                    "field {} of {name} is {size} bytes long and left out",
                    field.name
                ));
                continue;
            }
            room -= size;
            let mut own = field.name.clone();
            while fields.iter().any(|(known, _)| *known == own) {
                own.push('_');
            }
            fields.push((own, ty));
            slots.push(Slot {
                from: field.offset as usize,
                size: field.size as usize,
                kind,
            });
        }
        let own = fields.len();
        fields.extend(more);
        Self {
            class: EventClass {
                id,
                name,
                kind: "tracepoint".to_owned(),
                layout: Layout::new(fields),
                action: None,
                print: None,
            },
            slots,
            own,
        }
    }

    /// Sets the fields of a record that was begun from an entry; what is behind the entry's end is left zero.
    pub(super) fn read(&self, entry: &[u8], draft: &mut Draft) {
        for (index, (slot, field)) in self.slots.iter().zip(self.class.layout.fields()).enumerate() {
            let (from, size) = (slot.from, slot.size);
            let located = || {
                let word = u32::from_le_bytes(*entry.get(from..)?.first_chunk()?);
                let (mut at, length) = ((word & 0xffff) as usize, (word >> 16) as usize);
                if slot.kind == FieldLocation::RelLoc {
                    at += from + 4;
                }
                entry.get(at..at.checked_add(length)?)
            };
            let bytes = match slot.kind {
                FieldLocation::Fixed => entry.get(from..from + size),
                FieldLocation::DataLoc | FieldLocation::RelLoc => located(),
                FieldLocation::Rest => entry.get(from..),
            };
            let Some(bytes) = bytes else { continue };
            match &field.ty {
                FieldType::String { .. } => {
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                    draft.hold(index, &bytes[..end]);
                }
                ty if ty.is_variable() => draft.hold(index, bytes),
                _ => draft.set(field, bytes),
            }
        }
    }
}

/// How a field's bytes lie in entries, and what they are.
fn shape(format: &Format, field: &Field, system: &str) -> (FieldLocation, FieldType) {
    let is_text = matches!(field.type_text.as_str(), "char" | "const char");
    let variable = match is_text {
        true => FieldType::String { max: LONGEST },
        false => FieldType::Bytes { max: LONGEST },
    };
    match field.location {
        Location::DataLoc => return (FieldLocation::DataLoc, variable),
        Location::RelLoc => return (FieldLocation::RelLoc, variable),
        Location::Inline => {}
    }
    let is_long = field.type_text == "unsigned long";
    if system == "ftrace" && field.name == "caller" && is_long {
        let space = match format.name.as_str() {
            "user_stack" => Space::User,
            _ => Space::Kernel,
        };
        return (
            FieldLocation::Rest,
            FieldType::Stack {
                space,
                max: LONGEST / 8,
            },
        );
    }
    if field.is_array() && field.size == 0 {
        return (FieldLocation::Rest, variable);
    }
    (FieldLocation::Fixed, fixed(format, field, is_text))
}

fn fixed(format: &Format, field: &Field, is_text: bool) -> FieldType {
    let integer = |size: u8, printed| FieldType::Integer {
        size,
        signed: field.signed,
        base: match printed {
            Printed::Hexadecimal | Printed::Address => Base::Hexadecimal,
            Printed::Octal => Base::Octal,
            Printed::Device => Base::Named(Meaning::KernelDevice),
            Printed::Decimal | Printed::Names(..) => Base::Decimal,
        },
    };
    let bytes = FieldType::Array {
        element: Box::new(FieldType::Integer {
            size: 1,
            signed: false,
            base: Base::Hexadecimal,
        }),
        count: field.size,
    };
    if let Some(count) = field.array_len {
        if is_text {
            return FieldType::CharArray { size: field.size };
        }
        // The file says both, and they may contradict each other.
        let size = field
            .size
            .checked_div(count)
            .filter(|size| size * count == field.size);
        return match size.and_then(scalar) {
            Some(size) => FieldType::Array {
                element: Box::new(integer(size, format.base(field))),
                count,
            },
            None => bytes,
        };
    }
    let Some(size) = scalar(field.size) else {
        return bytes;
    };
    if field.type_text == "bool" && size == 1 {
        return FieldType::Bool;
    }
    if field.type_text.ends_with('*') && size == 8 {
        return FieldType::Pointer { symbolic: true };
    }
    match format.printed(field) {
        Printed::Names(LabelKind::Symbolic, names) => FieldType::Enumeration {
            size,
            signed: field.signed,
            names: names.into(),
        },
        Printed::Names(LabelKind::Flags { .. }, names) => FieldType::Flags {
            size,
            names: names.into(),
        },
        Printed::Address => FieldType::Pointer { symbolic: true },
        printed => integer(size, printed),
    }
}

fn scalar(size: u32) -> Option<u8> {
    u8::try_from(size)
        .ok()
        .filter(|size| matches!(size, 1 | 2 | 4 | 8))
}
