//! Handlers as they are written: predicate and block of a row, which rows with the same text share.

use super::Planner;
use super::cells::Cell;
use crate::plan::check_handlers::CalledProgram;
use crate::plan::text;
use kestrel_catalog::Error;
use kestrel_compiler::lang::ast::{Probe, Span, Spanned};
use kestrel_compiler::lang::diag::Diagnostic;
use std::path::Path;
use std::sync::Arc;

/// A handler as it was written: a predicate and a block.
pub(super) struct Written {
    /// As written, with what the options add; its events are those of the row that had it first.
    pub(super) probe: Probe,
    /// The text that its spans count in.
    pub(super) source: Arc<str>,
    /// The compiled object's program that it calls, if any.
    pub(super) object: Option<CalledProgram>,
    /// Whether it was written without a block.
    pub(super) is_default: bool,
}

impl Planner<'_> {
    /// The number of a row's handler: rows with the same predicate and block share one.
    pub(super) fn handler(&mut self, probe: &Probe) -> usize {
        let source = self.source.text.clone();
        let (_, written) = behind(&source, probe);
        if let Some(&known) = self.known.get(written) {
            return known;
        }
        let object = probe.object.as_ref().and_then(|object| self.object(object));
        let is_default = probe.block.is_none();
        let mut probe = probe.clone();
        text::complete(&mut probe, &self.options, &source);
        self.known.insert(written.to_owned(), self.handlers.len());
        self.handlers.push(Written {
            probe,
            source,
            object,
            is_default,
        });
        self.handlers.len() - 1
    }

    /// The compiled object of a row, read once; an error becomes a finding.
    fn object(&mut self, named: &Spanned<String>) -> Option<CalledProgram> {
        match CalledProgram::read(&named.node, &self.source.beside, &mut self.objects) {
            Ok(wanted) => Some(wanted),
            Err(error) => {
                let mut diagnostic = Diagnostic::error(named.span, error.to_string());
                let is_relative = self.source.file.is_some() && Path::new(&named.node).is_relative();
                if matches!(error, Error::Io { .. }) && is_relative {
                    diagnostic = diagnostic.hint("the path counts from where the table file is");
                }
                self.findings.wrong(vec![diagnostic]);
                None
            }
        }
    }

    /// The object that a row names.
    pub(in crate::plan) fn object_of(&self, cell: Cell) -> Option<&CalledProgram> {
        self.handlers.get(cell.handler)?.object.as_ref()
    }
}

/// The part of a text at a span.
pub(super) fn written(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize)
        .unwrap_or_default()
}

/// Predicate and block of a row, with their offset.
pub(super) fn behind<'t>(text: &'t str, probe: &Probe) -> (u32, &'t str) {
    let start = probe
        .events
        .last()
        .map_or(probe.span.start, |event| event.span.end);
    let rest = written(
        text,
        Span {
            start,
            end: probe.span.end,
        },
    );
    let is_separator = |c: char| c == ',' || c == ';' || c.is_whitespace();
    let trimmed = rest.trim_start_matches(is_separator);
    let start = start + (rest.len() - trimmed.len()) as u32;
    (start, trimmed.trim_end_matches(is_separator))
}
