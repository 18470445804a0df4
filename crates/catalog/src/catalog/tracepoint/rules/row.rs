//! One row of the tables of field rules.

/// Fields of an event's entry, each with the expression over the raw arguments that gives it.
pub(crate) type Fields = &'static [(&'static str, &'static str)];

/// `group:name` as in tracefs, and how its fields are computed.
pub(super) type Row = (&'static str, Fields);
