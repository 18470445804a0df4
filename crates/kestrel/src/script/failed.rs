//! Failures of helpers among the records of a program: the first of each place is shown before the record that was written after it. How often they were
//! repeated is counted, and shown by the reader of the counts.

use super::perform::Perform;
use crate::session::Session;
use kestrel_catalog::Result;
use kestrel_compiler::failures::Failure;
use kestrel_trace::record::Record;
use std::collections::VecDeque;
use std::fmt;

/// The messages of failures, for the user.
pub trait FailureMessages: fmt::Debug {
    /// The message of a place's first failure; nothing where it was shown before.
    fn first(&mut self, failure: &Failure) -> Option<Vec<u8>>;
}

/// Failures that one reading of the rings found, by the times at which they happened first. They are read when the first record is performed: all that
/// failed before a record of this reading is counted by then.
#[derive(Default)]
pub(super) struct FirstFailures(Option<VecDeque<Failure>>);

impl FirstFailures {
    /// Shows what failed before a record.
    pub(super) fn before(
        &mut self,
        record: &Record<'_>,
        session: &Session,
        perform: &mut Perform,
    ) -> Result<()> {
        if perform.failures.is_none() {
            return Ok(());
        }
        if self.0.is_none() {
            let mut counted = session.failures()?;
            // Those that had no room for their places have none in the order.
            counted.retain(|failure| failure.place.is_some());
            counted.sort_by_key(|failure| failure.first);
            self.0 = Some(counted.into());
        }
        let waiting = self.0.get_or_insert_default();
        while let Some(failure) = waiting.pop_front_if(|failure| failure.first <= record.time_ns) {
            perform.show_failure(&failure);
        }
        Ok(())
    }
}

impl Perform {
    fn show_failure(&mut self, failure: &Failure) {
        let Some(message) = self
            .failures
            .as_mut()
            .and_then(|messages| messages.first(failure))
        else {
            return;
        };
        match self.json {
            true => self.out.extend_from_slice(&message),
            false => self.complain(&message),
        }
    }
}
