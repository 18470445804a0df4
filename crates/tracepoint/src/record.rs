//! One event that happened: the values of its fields, and its line.

use crate::event::Event;
use crate::print;
use crate::value::Value;
use core::fmt;
use kestrel_layout::format::{Piece, pieces};

/// An event that is happening.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    event: &'static Event,
    values: &'a [Value<'a>],
}

impl<'a> Record<'a> {
    pub(crate) fn new(event: &'static Event, values: &'a [Value<'a>]) -> Self {
        Self { event, values }
    }

    /// The event that has happened.
    pub fn event(&self) -> &'static Event {
        self.event
    }

    /// The values of its fields, in their order.
    pub fn values(&self) -> &'a [Value<'a>] {
        self.values
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let at = self.event.fields().iter().position(|field| field.name == name)?;
        self.values.get(at).copied()
    }
}

impl fmt::Display for Record<'_> {
    /// Prints in the event's print format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in pieces(self.event.print()) {
            match piece {
                Piece::Text(text) => f.write_str(text)?,
                Piece::Field { name, style } => {
                    let fields = self.event.fields();
                    let at = fields.iter().position(|field| field.name == name);
                    let found = at.and_then(|at| Some((fields.get(at)?, self.values.get(at)?)));
                    let Some((field, value)) = found else {
                        continue;
                    };
                    print::value(f, field, value, style)?;
                }
            }
        }
        Ok(())
    }
}
