//! Tables laid out over the events: which handler each event meets in each table.

use super::Planner;
use super::handler::behind;
use crate::plan::events::{Matched, about, is_name};
use kestrel_catalog::catalog::{find_kind, is_own_event, jprobe, text_of};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::{EventSpec, Probe, Span};
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::table::TableFile;
use std::collections::HashMap;

/// Handler of an event in one table.
#[derive(Clone, Copy, Debug)]
pub(in crate::plan) struct Cell {
    /// Index of the handler.
    pub(in crate::plan) handler: usize,
    /// Whether the handler must hold for the event: it was named, not only matched by a pattern.
    pub(super) required: bool,
    /// Whether the pattern was resolved to a set.
    pub(super) in_set: bool,
    /// Where the row's own spelling of the handler begins.
    pub(super) start: u32,
}

/// A row of a table: the handler for its events.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The handler; none where it masks them.
    handler: Option<usize>,
    /// Where its handler begins in the text.
    start: u32,
}

/// A table as cells: what each event meets in it; events beyond the end meet nothing.
pub(in crate::plan) type Cells = Vec<Option<Cell>>;

impl Planner<'_> {
    /// The rows of a file's tables laid out over the events.
    pub(in crate::plan) fn tables(&mut self, file: &TableFile, names: &[&str]) -> Result<Vec<Cells>> {
        let levels = |name| {
            file.lineage(name)
                .into_iter()
                .map(|table| table.probes.as_slice())
        };
        names.iter().map(|&name| self.table(levels(name))).collect()
    }

    /// One table, from its oldest ancestor's rows on.
    pub(super) fn table<'p>(&mut self, levels: impl IntoIterator<Item = &'p [Probe]>) -> Result<Cells> {
        let mut cells = Cells::new();
        for probes in levels {
            // Another table may have its own jprobe of a function; another `-e` runs at the same time.
            if self.source.file.is_some() {
                self.jprobes.clear();
            }
            for probe in probes {
                self.row(probe, &mut cells)?;
            }
        }
        Ok(cells)
    }

    /// One row: its handler for each of its events, in place of what they had before.
    fn row(&mut self, probe: &Probe, cells: &mut Cells) -> Result<()> {
        let masks =
            self.source.file.is_some() && probe.block.as_ref().is_some_and(|b| b.statements.is_empty());
        let row = Row {
            handler: match masks {
                true => None,
                // An error of its object is among the findings.
                false => Some(self.handler(probe)),
            },
            start: behind(&self.source.text, probe).0,
        };
        for spec in &probe.events {
            let matched = self.events_of(spec, row, cells)?;
            cells.resize(self.events.len(), None);
            let mut taken = HashMap::new();
            for found in matched {
                if !self.is_of_part(found) || !self.is_wanted(found) || !self.is_traceable(spec, found)? {
                    continue;
                }
                let takes = || !self.counts_names() || self.turn.takes(found.event);
                if *taken.entry(found.event).or_insert_with(takes) {
                    if self.counts_names() {
                        self.events.use_name(found);
                    }
                    cells[found.event] = self.cell(spec, found, row, cells[found.event])?;
                }
            }
        }
        Ok(())
    }

    /// Whether an event is planned with the handlers of the probe that is planned now.
    fn is_of_part(&self, found: Matched) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.contains(&self.events.identity(found)))
    }

    /// Whether an event meets the handler as often as a row names it, as in bpftrace: so it does in programs.
    fn counts_names(&self) -> bool {
        self.missing_probes.is_some()
    }

    /// The events that a row's specification matches, those included that the table has already under names which the kernel does not list.
    fn events_of(&mut self, spec: &EventSpec, row: Row, cells: &Cells) -> Result<Vec<Matched>> {
        let taken = (0..cells.len()).filter(|&event| cells[event].is_some());
        let mut unlisted = match is_name(spec) || self.counts_names() {
            true => Vec::new(),
            false => self.events.unlisted(spec, taken),
        };
        self.refuse_bare_address(spec)?;
        // Only a program that runs fires them.
        let own = spec.parts.first().and_then(|part| find_kind(&part.text));
        let own = own.filter(|_| !self.globals.infers_types);
        let found = match own {
            Some(kind) if is_own_event(kind.name()) => Err(Error::OfPrograms {
                wanted: text_of(spec),
            }),
            _ => self.events.find(spec),
        };
        match found {
            Ok(matched) => {
                unlisted.retain(|found| !matched.iter().any(|m| m.event == found.event));
                Ok(matched.iter().copied().chain(unlisted).collect())
            }
            Err(_) if !unlisted.is_empty() => Ok(unlisted),
            Err(error) if self.source.file.is_none() => {
                self.missing(spec, error)?;
                Ok(Vec::new())
            }
            Err(error) => {
                // Where a kernel has nothing of a kind, masking that is no mistake.
                let masks = row.handler.is_none();
                let quiet = masks && self.events.may_be_absent(spec, &error);
                if !quiet {
                    self.unmatched(spec.span, !masks && is_name(spec), error)?;
                }
                Ok(Vec::new())
            }
        }
    }

    /// Cell of an event from a row on; `before` is what it met until then.
    fn cell(
        &mut self,
        spec: &EventSpec,
        found: Matched,
        row: Row,
        before: Option<Cell>,
    ) -> Result<Option<Cell>> {
        let Some(handler) = row.handler else {
            return Ok(None);
        };
        let in_file = self.source.file.is_some();
        let same = |cell: &Cell| cell.handler == handler;
        let is_single = |cell: &Cell| same(cell) && !cell.in_set;
        if !self.counts_names()
            && (is_name(spec) || before.as_ref().is_some_and(is_single))
            && let Some((name, known)) = self.events.known_as(found)
        {
            let message = format!("{name} is another name of {known}: they are one event");
            self.one_event(spec.span, message, before.as_ref().map(same));
        }
        if is_name(spec)
            && let Some(function) = self.events.jprobe(found.event)
            && !self.jprobes.insert(function.identity().to_owned())
        {
            let second = jprobe::second(function);
            if !in_file {
                return Err(second);
            }
            let why = Diagnostic::error(spec.span, second.to_string());
            self.findings.wrong(vec![why]);
        }
        let before = before.filter(same);
        Ok(Some(Cell {
            handler,
            required: !in_file || is_name(spec) || before.is_some_and(|cell| cell.required),
            // An event that is named by itself is seen by itself, with its own types.
            in_set: found.in_set && before.is_none_or(|cell| cell.in_set),
            start: row.start,
        }))
    }

    /// Warns that two names are one event; `before`: whether the table has the same handler for it already, if it has one.
    fn one_event(&mut self, span: Span, message: String, before: Option<bool>) {
        let hint = match before {
            Some(true) => "it meets the handler once",
            Some(false) => {
                "this row takes the place of the one before, as a later row of the same event does; to have both, write one block"
            }
            None => "in all tables it is recorded under one of its names",
        };
        self.findings
            .warn_once(Diagnostic::warning(span, message).hint(hint));
    }

    /// A pattern may match nothing on one kernel and much on the next; a name must be there.
    fn unmatched(&mut self, span: Span, must: bool, error: Error) -> Result<()> {
        let mistyped = match &error {
            Error::NoSuchEvent { what, .. } => what == "class",
            other => matches!(
                other,
                Error::WrongShape { .. } | Error::NotYet { .. } | Error::OfPrograms { .. }
            ),
        };
        let (message, hint) = about(error)?;
        match must || mistyped {
            true => self
                .findings
                .wrong_once(Diagnostic::error(span, message).maybe_hint(hint)),
            false => self
                .findings
                .warn_once(Diagnostic::warning(span, message).maybe_hint(hint)),
        }
        Ok(())
    }
}
