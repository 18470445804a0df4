//! Fields of spans and events as one text: `user=7 path="/x"`.

use std::fmt::{self, Write as _};
use tracing_core::Field;
use tracing_core::field::Visit;

/// The field that `tracing` keeps an event's words in.
const MESSAGE: &str = "message";

/// Text fields of a span or an event.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) message: String,
    pub(crate) fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String does not fail; a value that does leaves its name.
        if field.name() == MESSAGE {
            let _ = write!(self.message, "{value:?}");
            return;
        }
        let space = if self.fields.is_empty() { "" } else { " " };
        let _ = write!(self.fields, "{space}{}={value:?}", field.name());
    }
}
