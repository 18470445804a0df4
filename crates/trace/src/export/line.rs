//! Lines of an event, prepared once for all its records: what stands in each of them, and where the values lie that stand between.

use super::format::CALLS;
use super::registers;
use crate::event::EventClass;
use crate::layout::{Base, Field, FieldPlace, FieldType, UNUSED};
use crate::print::escape::escape;
use crate::print::format::{Piece, Style, pieces, write as styled};
use crate::print::{decimal, hexadecimal, value};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use std::ops::Range;

/// The lines of all events that were met, by event number.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Option<Line>>,
}

/// What the lines of one event have in common.
#[derive(Clone, Debug)]
pub(super) struct Line {
    event: String,
    /// Where the fields of the class lay in memory, and how many: a live trace may describe another class under the number.
    fields: (usize, usize),
    /// `sched:sched_switch:`.
    head: Vec<u8>,
    parts: Vec<Part>,
    /// What stands behind the last value.
    tail: Vec<u8>,
    call: bool,
    /// Whether a field is a stack: those have lines of their own.
    pub(super) stacks: bool,
    /// Places of a block of registers, which have lines of their own too.
    pub(super) registers: Range<usize>,
}

/// A value of the line.
#[derive(Clone, Debug)]
struct Part {
    /// What stands before it: ` prev_comm=`.
    label: Vec<u8>,
    /// Its place among the event's fields.
    field: usize,
    stack: bool,
    read: Read,
    /// How the event's own print format has it.
    style: Option<Style>,
}

/// How a value becomes text: the usual kinds without a look at what else it could be.
#[derive(Clone, Copy, Debug)]
enum Read {
    Signed(usize, u8),
    Unsigned(usize, u8),
    Hexadecimal(usize, u8),
    Text(usize, usize),
    Other,
}

impl Lines {
    /// The line of the record's event.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Option<&Line> {
        let id = usize::from(record.event.id.0);
        if self.lines.len() <= id {
            self.lines.resize(id + 1, None);
        }
        let line = &mut self.lines[id];
        if !line.as_ref().is_some_and(|line| line.is_of(record.event)) {
            *line = Some(Line::new(record.event));
        }
        line.as_ref()
    }
}

impl Line {
    fn new(event: &EventClass) -> Self {
        let call = event.kind == CALLS;
        let mut head = Vec::new();
        escape(event.name.as_bytes(), &mut head);
        head.push(b':');
        if call {
            let function = event.name.rsplit(':').next().unwrap_or_default();
            head.push(b' ');
            escape(function.as_bytes(), &mut head);
            head.push(b'(');
        }
        let registers = registers::places(event.layout.shown());
        if let Some((parts, tail)) = printed(event) {
            let stacks = event.layout.fields().iter().any(|field| field.ty.is_stack());
            return Self {
                event: event.name.clone(),
                fields: address(event),
                head,
                parts,
                tail,
                call,
                stacks,
                registers,
            };
        }
        let (mut parts, mut stacks) = (Vec::<Part>::new(), false);
        let shown = event.layout.fields().iter().enumerate();
        for (place, (index, field)) in shown.filter(|(_, field)| field.name != UNUSED).enumerate() {
            stacks |= field.ty.is_stack();
            if !registers.contains(&place) {
                parts.push(Part::new(call, index, field));
            }
        }
        Self {
            event: event.name.clone(),
            fields: address(event),
            head,
            parts,
            tail: Vec::new(),
            call,
            stacks,
            registers,
        }
    }

    /// Appends what stands behind the event's name, without the line's end.
    pub(super) fn fields(&self, record: &Record<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        let opened = out.len();
        for part in &self.parts {
            // A stack is in the line only where it could not be read.
            if part.stack && part.is_stack_of(record) {
                continue;
            }
            if self.call && out.len() > opened {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(&part.label);
            if !part.read.write(record.bytes, out) {
                part.other(record, self.call, symbols, out);
            }
        }
        out.extend_from_slice(&self.tail);
    }

    fn is_of(&self, event: &EventClass) -> bool {
        self.fields == address(event) && self.event == event.name
    }

    /// Appends the line from the event's name on.
    pub(super) fn write(&self, record: &Record<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        self.fields(record, symbols, out);
        out.extend_from_slice(if self.call { b")\n" } else { b"\n" });
    }
}

impl Part {
    fn new(call: bool, index: usize, field: &Field) -> Self {
        let mut label = if call { Vec::new() } else { b" ".to_vec() };
        escape(field.name.as_bytes(), &mut label);
        label.push(b'=');
        Self {
            label,
            field: index,
            stack: field.ty.is_stack(),
            read: match Read::of(field) {
                // It has quotes.
                Read::Text(..) if call => Read::Other,
                read => read,
            },
            style: None,
        }
    }

    /// A field of the event's own print format, behind a text.
    fn styled(label: Vec<u8>, index: usize, field: &Field, style: Style) -> Self {
        let plain = style == Style::default();
        Self {
            label,
            field: index,
            stack: false,
            read: if plain { Read::of(field) } else { Read::Other },
            style: Some(style),
        }
    }

    fn is_stack_of(&self, record: &Record<'_>) -> bool {
        let field = record.event.layout.fields().get(self.field);
        field.is_some_and(|field| matches!(record.value(field), Value::Stack(_)))
    }

    /// A value of another kind, or one that the record is too short for.
    #[cold]
    #[inline(never)]
    fn other(&self, record: &Record<'_>, call: bool, symbols: &Symbols, out: &mut Vec<u8>) {
        let Some(field) = record.event.layout.fields().get(self.field) else {
            return;
        };
        match record.value(field) {
            it if let Some(style) = self.style => styled(style, &field.ty, it, symbols, out),
            Value::Text(text) if call => {
                out.push(b'"');
                escape(text, out);
                out.push(b'"');
            }
            it => value(it, symbols, out),
        }
    }
}

/// The event's own print format as parts, behind them stacks, and what stands at its end.
fn printed(event: &EventClass) -> Option<(Vec<Part>, Vec<u8>)> {
    let print = event.print.as_deref()?;
    let (mut parts, mut label) = (Vec::new(), b" ".to_vec());
    let fields = || event.layout.fields().iter().enumerate();
    for piece in pieces(print) {
        match piece {
            Piece::Text(text) => escape(text.as_bytes(), &mut label),
            Piece::Field { name, style } => {
                let (index, field) = fields().find(|(_, field)| field.name == name)?;
                parts.push(Part::styled(std::mem::take(&mut label), index, field, style));
            }
        }
    }
    let stacks = fields().filter(|(_, field)| field.ty.is_stack());
    parts.extend(stacks.map(|(index, field)| Part::new(false, index, field)));
    Some((parts, label))
}

impl Read {
    fn of(field: &Field) -> Self {
        let FieldPlace::Fixed { offset } = field.place else {
            return Self::Other;
        };
        let at = offset as usize;
        match field.ty {
            FieldType::Integer {
                size,
                signed: true,
                base: Base::Decimal,
            } => Self::Signed(at, size),
            FieldType::Integer {
                size,
                signed: false,
                base: Base::Decimal,
            } => Self::Unsigned(at, size),
            FieldType::Integer {
                size,
                signed: false,
                base: Base::Hexadecimal,
            } => Self::Hexadecimal(at, size),
            FieldType::Pointer { symbolic: false } => Self::Hexadecimal(at, 8),
            FieldType::Text { size } => Self::Text(at, size as usize),
            _ => Self::Other,
        }
    }

    /// Appends the value; false where it is none of the usual kinds.
    #[inline]
    fn write(self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Signed(at, 4) => match number(bytes, at).map(i32::from_le_bytes) {
                Some(value) => small(value.into(), out),
                None => return false,
            },
            Self::Signed(at, 8) => match number(bytes, at).map(i64::from_le_bytes) {
                Some(value) => small(value, out),
                None => return false,
            },
            Self::Unsigned(at, 4) => match number(bytes, at).map(u32::from_le_bytes) {
                Some(value) => small(value.into(), out),
                None => return false,
            },
            Self::Unsigned(at, 8) => match number(bytes, at).map(u64::from_le_bytes) {
                Some(value) => decimal(value, out),
                None => return false,
            },
            Self::Hexadecimal(at, 4) => match number(bytes, at).map(u32::from_le_bytes) {
                Some(value) => hexadecimal(value.into(), out),
                None => return false,
            },
            Self::Hexadecimal(at, 8) => match number(bytes, at).map(u64::from_le_bytes) {
                Some(value) => hexadecimal(value, out),
                None => return false,
            },
            Self::Text(at, size) => return text(bytes.get(at..at + size), out),
            _ => return false,
        }
        true
    }
}

/// Appends a text that is plain; others are left to [`value`].
fn text(bytes: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let Some(bytes) = bytes else { return false };
    let plain = bytes.iter().position(|byte| !(0x20..0x7f).contains(byte));
    match plain.map(|end| (end, bytes[end])) {
        // One that begins with its end may be one that could not be read.
        Some((end @ 1.., 0)) => out.extend_from_slice(&bytes[..end]),
        None => out.extend_from_slice(bytes),
        _ => return false,
    }
    true
}

/// Appends a number, most of which have one digit.
fn small(value: i64, out: &mut Vec<u8>) {
    match value {
        0..10 => out.push(b'0' + value as u8),
        _ => decimal(value, out),
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn address(event: &EventClass) -> (usize, usize) {
    let fields = event.layout.fields();
    (fields.as_ptr().addr(), fields.len())
}
