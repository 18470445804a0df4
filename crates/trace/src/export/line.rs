//! Lines of an event, prepared once for all its records: what stands in each of them, and where the values lie that stand between.

use super::field::{Part, Words};
use super::format::CALLS;
use super::registers;
use crate::event::EventClass;
use crate::layout::UNUSED;
use crate::print::escape::escape;
use crate::print::{Piece, Scratch, value};
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
    /// The layout's identity: a live trace may describe another class under the number.
    layout: u64,
    /// `sched:sched_switch:`.
    head: Piece,
    values: Vec<Shown>,
    call: bool,
    /// Whether a field is a stack: those have lines of their own.
    pub(super) stacks: bool,
    /// Places of a block of registers, which have lines of their own too.
    pub(super) registers: Range<usize>,
}

/// A value of the line.
#[derive(Clone, Debug)]
struct Shown {
    /// With what stands before it: ` prev_comm=`.
    part: Part,
    stack: bool,
}

impl Lines {
    /// The line of the record's event.
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
        let (mut values, mut stacks) = (Vec::new(), false);
        let shown = event.layout.fields().iter().enumerate();
        for (place, (index, field)) in shown.filter(|(_, field)| field.name != UNUSED).enumerate() {
            stacks |= field.ty.is_stack();
            if !registers.contains(&place) {
                let mut label = if call { Vec::new() } else { b" ".to_vec() };
                escape(field.name.as_bytes(), &mut label);
                label.push(b'=');
                values.push(Shown {
                    // The texts of a call have quotes.
                    part: Part::new(Words::Lines, &label, event, index, !call),
                    stack: field.ty.is_stack(),
                });
            }
        }
        Self {
            event: event.name.clone(),
            layout: event.layout.identity(),
            head: Piece::new(&head),
            values,
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
        let mut first = true;
        for shown in &mut self.values {
            // A stack is in the line only where it could not be read.
            if shown.stack && shown.is_stack_of(record) {
                continue;
            }
            if self.call && !first {
                line.two(*b", ");
            }
            first = false;
            shown.part.write(record, line, |it, out| match it {
                Value::Text(text) if self.call => {
                    out.push(b'"');
                    escape(text, out);
                    out.push(b'"');
                }
                it => value(it, symbols, out),
            });
        }
        match self.call {
            true => line.two(*b")\n"),
            false => line.byte(b'\n'),
        }
    }
}

impl Shown {
    fn is_stack_of(&self, record: &Record<'_>) -> bool {
        let field = self.part.field(record);
        field.is_some_and(|field| matches!(record.value(field), Value::Stack(_)))
    }
}
