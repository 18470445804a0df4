//! Findings of planning about a text: each once, those about many events with a list of the events.

use kestrel_compiler::lang::ast::{Probe, Span};
use kestrel_compiler::lang::diag::{Diagnostic, sort_by_call};
use std::collections::HashMap;

/// Findings about one text.
#[derive(Default)]
pub(super) struct Findings {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Remarks about events, each with the names of the events.
    remarks: Vec<(Diagnostic, Vec<String>)>,
    places: HashMap<(Span, String), usize>,
}

impl Findings {
    /// Adds errors to the findings.
    pub(super) fn wrong(&mut self, why: Vec<Diagnostic>) {
        for diagnostic in why {
            if !self.errors.contains(&diagnostic) {
                self.errors.push(diagnostic);
            }
        }
    }

    /// Adds an error, unless there is one about the same place.
    pub(super) fn wrong_once(&mut self, diagnostic: Diagnostic) {
        if !self.errors.iter().any(|d| d.span == diagnostic.span) {
            self.errors.push(diagnostic);
        }
    }

    /// Adds a warning, unless there is one about the same place.
    pub(super) fn warn_once(&mut self, diagnostic: Diagnostic) {
        if !self.warnings.iter().any(|d| d.span == diagnostic.span) {
            self.warnings.push(diagnostic);
        }
    }

    /// Adds a remark about these events: the same one about other events only lengthens its list of events.
    pub(super) fn remark(&mut self, remark: Diagnostic, names: &[String], named: bool) {
        let key = match named {
            true => remark.message.clone(),
            false => kind_of(&remark.message, names),
        };
        let next = self.remarks.len();
        let place = *self.places.entry((remark.span, key)).or_insert(next);
        if place == next {
            self.remarks.push((remark, Vec::new()));
        }
        for name in names {
            if !self.remarks[place].1.contains(name) {
                self.remarks[place].1.push(name.clone());
            }
        }
    }

    /// Adds that a handler does not hold for events that only a pattern named.
    pub(super) fn left_out(&mut self, handler: &Probe, why: Vec<Diagnostic>, names: &[String]) {
        let (span, message) = why.into_iter().next().map_or_else(
            || (handler.span, "it cannot be seen here".to_owned()),
            |d| (d.span, d.message),
        );
        self.remark(
            Diagnostic::warning(span, format!("{LEFT_OUT}: {message}")),
            names,
            false,
        );
    }

    /// The warnings by their places in `text`, or all errors.
    pub(super) fn finish(mut self, text: &str) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        if !self.errors.is_empty() {
            sort_by_call(&mut self.errors, text);
            return Err(self.errors);
        }
        let remarks = self.remarks.into_iter();
        self.warnings
            .extend(remarks.map(|(diagnostic, events)| with_events(diagnostic, &events)));
        sort_by_call(&mut self.warnings, text);
        Ok(self.warnings)
    }
}

/// The beginning of a remark about an event that is not in the table.
const LEFT_OUT: &str = "left out";

/// A message without the names of events: remarks about many events are compared by it.
fn kind_of(message: &str, names: &[String]) -> String {
    let bare: String = message.split('"').step_by(2).collect();
    names
        .iter()
        .fold(bare, |bare, name| bare.replace(name.as_str(), ""))
}

/// Events that a warning lists by name.
const LISTED: usize = 5;

/// A diagnostic with a hint that lists the events which it is about, where they are several.
fn with_events(diagnostic: Diagnostic, events: &[String]) -> Diagnostic {
    if events.len() < 2 {
        return diagnostic;
    }
    let listed = events.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    let about = format!("this is about {} events: {listed}", events.len());
    match events.len().saturating_sub(LISTED) {
        0 => diagnostic.hint(about),
        more => diagnostic.hint(format!("{about} and {more} more")),
    }
}
