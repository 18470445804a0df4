//! A hook for each group of events: its handlers checked, and what does not hold reported at the row that names it.

use super::Planner;
use super::cells::Cell;
use super::group::Group;
use super::handler::{Written, behind};
use crate::plan::check_handlers::{Candidate, check_set};
use crate::plan::hook::{Hook, whole_name};
use crate::plan::{calls, own_events, program_types, targets};
use kestrel_catalog::catalog::Resolved;
use kestrel_compiler::lang::ast::Span;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::hook::process_filter::ProcessFilter;

impl Planner<'_> {
    /// A hook for each group.
    pub(in crate::plan) fn hooks(&mut self, groups: Vec<Group>, numbers: &[u32]) -> Vec<Hook> {
        let mut hooks = Vec::new();
        let groups = groups.into_iter().flat_map(|Group { events, cells }| {
            let parts = targets::split_by_target_fields(events, &self.options).into_iter();
            parts.map(move |events| (events, cells.clone()))
        });
        for (mut events, cells) in groups.collect::<Vec<_>>() {
            let wanted = cells.iter().flatten();
            let handlers = wanted.filter_map(|cell| Some(&self.handlers.get(cell.handler)?.probe));
            program_types::add(self.catalog, handlers, &mut events);
            if self.globals.infers_types {
                program_types::share(self.catalog, &mut events);
            }
            if self.in_call {
                calls::add_strategy(&mut events);
            }
            if let Some(types) = &self.types {
                program_types::overlay_definitions(self.catalog, &self.definitions, types, &mut events);
            }
            if self.globals.infers_types {
                with_kind(&mut events);
            }
            // The events of one process, or of a command, are none of the recorder's.
            let everyone = self.options.target == ProcessFilter::All;
            if let Some(own) = self.options.leave_out.filter(|_| everyone) {
                own_events::leave_out(&mut events, own);
            }
            let about = targets::admit(&mut events, &self.options);
            targets::admit_command(&mut events, self.catalog.command());
            let (candidates, own) = candidates(&self.handlers, &cells, numbers);
            match check_set(events, &candidates, &mut self.globals) {
                Ok(checked) => {
                    for checked in checked {
                        let names = &checked.names;
                        for refused in checked.refused {
                            let handler = candidates[refused.candidate].probe;
                            self.findings.left_out(handler, refused.why, names);
                        }
                        for (candidate, remark) in checked.remarks {
                            let required = candidates[candidate].required;
                            self.findings.remark(remark, names, required);
                        }
                        hooks.extend(checked.companions);
                        hooks.extend(checked.hook.map(|hook| Hook {
                            about: about.clone(),
                            ..hook
                        }));
                    }
                }
                Err(refused) => {
                    let handler = own[refused.candidate];
                    drop(candidates);
                    self.refused(handler, &cells, refused.why);
                }
            }
        }
        hooks
    }

    /// Reports why a handler does not hold for an event that a row names: at that row, if another has the same handler.
    pub(in crate::plan) fn refused(
        &mut self,
        handler: usize,
        cells: &[Option<Cell>],
        mut why: Vec<Diagnostic>,
    ) {
        let (first, written) = behind(&self.source.text, &self.handlers[handler].probe);
        let behind_it = first + written.len() as u32;
        let mut mine = cells
            .iter()
            .flatten()
            .filter(|cell| cell.handler == handler && cell.required);
        if let Some(cell) = mine.next() {
            let moved = |span: &mut Span| {
                // Bodies of macros stand once for all rows.
                if span.start >= behind_it {
                    return;
                }
                span.start = (span.start + cell.start).saturating_sub(first);
                span.end = (span.end + cell.start).saturating_sub(first);
            };
            for diagnostic in &mut why {
                moved(&mut diagnostic.span);
                diagnostic
                    .labels
                    .iter_mut()
                    .for_each(|label| moved(&mut label.span));
            }
        }
        self.findings.wrong(why);
    }

    /// Candidates for one event or set, and which handler each is.
    pub(in crate::plan) fn candidates(
        &self,
        cells: &[Option<Cell>],
        numbers: &[u32],
    ) -> (Vec<Candidate<'_>>, Vec<usize>) {
        candidates(&self.handlers, cells, numbers)
    }
}

fn candidates<'h>(
    handlers: &'h [Written],
    cells: &[Option<Cell>],
    numbers: &[u32],
) -> (Vec<Candidate<'h>>, Vec<usize>) {
    let mut candidates: Vec<Candidate<'h>> = Vec::new();
    let mut own: Vec<usize> = Vec::new();
    for (cell, &number) in cells.iter().zip(numbers) {
        let Some(cell) = cell else { continue };
        let place = own.iter().position(|&h| h == cell.handler).unwrap_or_else(|| {
            own.push(cell.handler);
            let handler = &handlers[cell.handler];
            candidates.push(Candidate {
                probe: &handler.probe,
                object: handler.object.clone(),
                source: handler.source.clone(),
                tables: Vec::new(),
                required: false,
            });
            own.len() - 1
        });
        candidates[place].tables.push(number);
        candidates[place].required |= cell.required;
    }
    (candidates, own)
}

impl Planner<'_> {
    /// A handler does not hold for events that only a pattern named.
    pub(in crate::plan) fn left_out(&mut self, handler: usize, why: Vec<Diagnostic>, names: &[String]) {
        self.findings.left_out(&self.handlers[handler].probe, why, names);
    }
}

/// Programs know tracepoints by their whole names, as bpftrace does: what `probe` is begins with the kind.
fn with_kind(events: &mut Resolved) {
    let members = events.members.iter_mut().flat_map(|one| &mut one.strategies);
    for strategy in events.strategies.iter_mut().chain(members) {
        strategy.context.name = whole_name(events.kind, &strategy.context.name);
    }
}
