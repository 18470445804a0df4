//! A number of each record whose values are looked at: `bytes_req`, `ret`, `nr_pages * 4096`.

use crate::background::Background;
use crate::bind;
use crate::code::{Number, Subject};
use crate::error::Result;
use crate::expression::{ByEvent, at_events, parsed};
use crate::words::NoMeaning;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_trace::event::EventClass;
use kestrel_trace::record::Record;

/// An expression that is a number, bound to the events of a trace.
#[derive(Clone, Debug)]
pub struct Measure {
    text: String,
    code: ByEvent<Number>,
    warnings: Vec<Diagnostic>,
}

impl Measure {
    /// Binds an expression to the events of a trace.
    ///
    /// # Errors
    /// When it is none, is no number, or means nothing at any of the events.
    pub fn new<'e>(text: &str, events: impl IntoIterator<Item = &'e EventClass>) -> Result<Self> {
        let expr = parsed(text)?;
        let (code, warnings) = at_events(text, events, |event| match bind::value(&expr, event)? {
            (bind::Value::Number(number, _), warnings) => Ok((number, warnings)),
            (bind::Value::Text(_), _) => {
                let diagnostic =
                    Diagnostic::error(expr.span, "this is a string, and only numbers can be added");
                Err(NoMeaning::Wrong(
                    diagnostic.hint("`--by` counts by the values of a string"),
                ))
            }
        })?;
        Ok(Self {
            text: text.to_owned(),
            code,
            warnings,
        })
    }

    /// The expression as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Warnings about the measured expression.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The value for a record; none where the event has not all its fields.
    pub fn value(&self, record: &Record<'_>, background: &Background) -> Option<i64> {
        let subject = Subject::new(record, background);
        let code = self.code.at(record.event.id)?;
        Some(code.value(&subject).cast_signed())
    }
}
