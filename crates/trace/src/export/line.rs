//! Lines of an export, prepared once per event for all its records: the text that every line has, and where the values between are.

use super::field::{Part, Words};
use super::format::CALLS;
use super::registers;
use crate::event::EventClass;
use crate::print::escape::escape;
use crate::print::format::{Piece as Written, Style, pieces, write as styled};
use crate::print::socket::{address, is_address};
use crate::print::{Piece, Scratch, value};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use std::ops::Range;

/// The prepared lines of the events met so far, at the index that is the event's number.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Option<Line>>,
}

/// The parts that all lines of one event have in common.
#[derive(Clone, Debug)]
pub(super) struct Line {
    event: String,
    /// Identity of the event's layout: a live trace may describe another event under the same number later.
    layout: u64,
    /// Text before the first value: `sched:sched_switch:`.
    head: Piece,
    values: Vec<Shown>,
    /// Text behind the last value.
    tail: Piece,
    /// Whether the event is a call, which is written as `name(a=1, b=2)`.
    call: bool,
    /// Whether a field is a stack, which is written on lines of its own.
    pub(super) stacks: bool,
    /// Places of the fields with registers, which are written on lines of their own, too.
    pub(super) registers: Range<usize>,
}

/// A value in the lines of an event.
#[derive(Clone, Debug)]
struct Shown {
    /// The value, with the text before it: ` prev_comm=`.
    part: Part,
    stack: bool,
    /// Whether it is the address of a socket, as an array of bytes.
    address: bool,
    /// How the event's own print format writes it, where there is one.
    style: Option<Style>,
}

impl Lines {
    /// The prepared line of the record's event.
    #[inline]
    pub(super) fn of(&mut self, record: &Record<'_>) -> Option<&mut Line> {
        let id = usize::from(record.event.id.0);
        let known = self.lines.get(id).and_then(Option::as_ref);
        if !known.is_some_and(|line| line.is_of(record.event)) {
            self.prepare(record.event);
        }
        self.lines.get_mut(id)?.as_mut()
    }

    #[cold]
    fn prepare(&mut self, event: &EventClass) {
        let id = usize::from(event.id.0);
        if self.lines.len() <= id {
            self.lines.resize(id + 1, None);
        }
        self.lines[id] = Some(Line::new(event));
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
        if let Some((values, tail)) = printed(event) {
            return Self {
                event: event.name.clone(),
                layout: event.layout.identity(),
                head: Piece::new(&head),
                values,
                tail: Piece::new(&tail),
                call,
                stacks: event.layout.fields().iter().any(|field| field.ty.is_stack()),
                registers,
            };
        }
        let (mut values, mut stacks) = (Vec::new(), false);
        let shown = event.layout.fields().iter().enumerate();
        for (place, (index, field)) in shown.filter(|(_, field)| field.is_shown()).enumerate() {
            stacks |= field.ty.is_stack();
            if !registers.contains(&place) {
                let mut label = if call { Vec::new() } else { b" ".to_vec() };
                escape(field.name.as_bytes(), &mut label);
                label.push(b'=');
                let address = is_address(&field.name, &field.ty);
                values.push(Shown {
                    part: match address {
                        true => Part::unusual(&label, index),
                        // Strings of a call are quoted.
                        false => Part::new(Words::Lines, &label, event, index, !call),
                    },
                    stack: field.ty.is_stack(),
                    address,
                    style: None,
                });
            }
        }
        Self {
            event: event.name.clone(),
            layout: event.layout.identity(),
            head: Piece::new(&head),
            values,
            tail: Piece::new(b""),
            call,
            stacks,
            registers,
        }
    }

    fn is_of(&self, event: &EventClass) -> bool {
        self.layout == event.layout.identity() && self.event == event.name
    }

    /// Appends the line from the event's name on.
    pub(super) fn write(&mut self, record: &Record<'_>, symbols: &Symbols, line: &mut Scratch) {
        line.piece(&self.head);
        self.values(record, symbols, line);
        match self.call {
            true => line.two(*b")\n"),
            false => line.byte(b'\n'),
        }
    }

    /// Appends the line from the first value on, without its end.
    pub(super) fn values(&mut self, record: &Record<'_>, symbols: &Symbols, line: &mut Scratch) {
        let mut first = true;
        for shown in &mut self.values {
            // A stack has lines of its own, unless it could not be read: then this line says so.
            if shown.stack && shown.is_stack_of(record) {
                continue;
            }
            if self.call && !first {
                line.two(*b", ");
            }
            first = false;
            let (style, is_address, index) = (shown.style, shown.address, shown.part.index());
            shown.part.write(record, line, |it, out| match it {
                it if let Some(style) = style => {
                    if let Some(field) = record.event.layout.fields().get(index) {
                        styled(style, &field.ty, it, symbols, out);
                    }
                }
                Value::Array(elements) if is_address && let Some(text) = address(elements.bytes()) => {
                    out.extend_from_slice(text.as_bytes());
                }
                Value::Text(text) if self.call => {
                    out.push(b'"');
                    escape(text, out);
                    out.push(b'"');
                }
                it => value(it, symbols, out),
            });
        }
        line.piece(&self.tail);
    }
}

impl Shown {
    fn is_stack_of(&self, record: &Record<'_>) -> bool {
        let field = self.part.field(record);
        field.is_some_and(|field| matches!(record.value(field), Value::Stack(_)))
    }
}

/// Prepares a line by the event's own print format: the values with the text before each, then the stacks; and the text at the end.
fn printed(event: &EventClass) -> Option<(Vec<Shown>, Vec<u8>)> {
    let print = event.print.as_deref()?;
    let (mut values, mut label) = (Vec::new(), b" ".to_vec());
    let fields = || event.layout.fields().iter().enumerate();
    for piece in pieces(print) {
        match piece {
            Written::Text(text) => escape(text.as_bytes(), &mut label),
            Written::Field { name, style } => {
                let (index, _) = fields().find(|(_, field)| field.name == name)?;
                let before = std::mem::take(&mut label);
                values.push(Shown {
                    part: Part::unusual(&before, index),
                    stack: false,
                    address: false,
                    style: Some(style),
                });
            }
        }
    }
    for (index, field) in fields().filter(|(_, field)| field.ty.is_stack()) {
        let mut before = b" ".to_vec();
        escape(field.name.as_bytes(), &mut before);
        before.push(b'=');
        values.push(Shown {
            part: Part::new(Words::Lines, &before, event, index, true),
            stack: true,
            address: false,
            style: None,
        });
    }
    Some((values, label))
}
