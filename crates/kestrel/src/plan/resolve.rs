//! A table file on this kernel: which handler each event has in each table, and so one hook per event with a row per handler.

use super::events::{Events, about, is_name};
use super::trust;
use super::{BufferPlan, Candidate, Hook, Plan, Wanted, check_set};
use kestrel_catalog::catalog::{Catalog, Via, jprobe};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::ast::{Probe, Span, Spanned};
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::hook::process_filter::Target;
use kestrel_hook::table::{BufferSpec, TableFile};
use kestrel_object::HandlerFile;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// How a table file is put to use.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whose events.
    pub target: Target,
    /// How tracepoints are read.
    pub via: Via,
    /// What the buffers do when they are full, whatever the file says.
    pub mode: Option<Mode>,
    /// Whether it is for a session that stays: tables can be loaded into it, an agent may listen.
    pub stays: bool,
    /// As [`super::Request::messages`]; a persistent session has such a buffer in any case.
    pub messages: bool,
}

/// Makes a plan of a table file: table number *n* is the *n*th of the file.
///
/// # Errors
/// [`Error::Table`] with all that is wrong; or why this kernel cannot be asked.
pub fn resolve(file: &TableFile, catalog: &Catalog, options: &Options) -> Result<Plan> {
    let globals = Globals {
        tables: file.table_names().map(str::to_owned).collect(),
        buffers: file.buffers.iter().map(|b| b.name.clone()).collect(),
        parameters: file.parameters.clone(),
        messages: options.stays || options.messages,
        persistent: options.stays,
        max_map_keys: file.max_map_keys,
        ..Globals::default()
    };
    let mut work = Work::new(file, catalog, options.via, options.target, globals);
    let names: Vec<&str> = file.table_names().collect();
    let tables = work.tables(&names)?;
    let groups = work.groups(&tables);
    let numbers: Vec<u32> = (1..=tables.len() as u32).collect();
    let mut hooks = work.hooks(groups, &numbers);
    let Done {
        globals,
        objects,
        warnings,
    } = work.finish()?;
    let next = super::number(&mut hooks, 1)?;
    let room = match options.stays {
        true => super::room_to_grow(next),
        false => next,
    };
    let buffer = |buffer: &BufferSpec| BufferPlan {
        name: buffer.name.clone(),
        geometry: Geometry::new(options.mode.unwrap_or(buffer.mode), buffer.bytes, room),
        process: buffer.process.clone(),
    };
    let mut plan = Plan {
        tables: globals.tables.clone(),
        hooks,
        target: options.target,
        buffers: file.buffers.iter().map(buffer).collect(),
        globals,
        slots: options.stays,
        objects,
        warnings,
    };
    if options.stays || plan.asks() {
        plan.give_messages_a_buffer();
    }
    trust::check(file, plan)
}

/// What an event meets in one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Which handler.
    pub(super) handler: usize,
    /// Whether the row names the event.
    named: bool,
    /// Whether the row's pattern was resolved to a set.
    in_set: bool,
    /// Where the row's own spelling of the handler begins.
    start: u32,
}

/// One table: what each event meets in it; events beyond the end meet nothing.
pub(super) type Cells = Vec<Option<Cell>>;

/// Events that meet the same handlers in all tables, and can be seen together.
pub(super) struct Group {
    /// The set to see them with; absent for a single event.
    set: Option<usize>,
    pub(super) events: Vec<usize>,
    /// What they meet, by table.
    cells: Vec<Option<Cell>>,
}

/// What is left when all has been checked.
pub(super) struct Done {
    pub(super) globals: Globals,
    pub(super) objects: Vec<Arc<HandlerFile>>,
    pub(super) warnings: Vec<(String, Diagnostic)>,
}

/// A file on its way to a plan.
pub(super) struct Work<'a> {
    pub(super) file: &'a TableFile,
    pub(super) events: Events<'a>,
    pub(super) globals: Globals,
    target: Target,
    /// Each handler once, with its predicate completed; events of its probe are those of the row that had it first.
    handlers: Vec<Probe>,
    /// The object's program that each calls, if any.
    wanted: Vec<Option<Wanted>>,
    objects: Vec<Arc<HandlerFile>>,
    /// Handlers by their text.
    known: HashMap<&'a str, usize>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Findings about events that only patterns named: by row and finding, the events.
    remarks: Vec<(Diagnostic, Vec<String>)>,
    places: HashMap<(Span, String), usize>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        file: &'a TableFile,
        catalog: &'a Catalog,
        via: Via,
        target: Target,
        globals: Globals,
    ) -> Self {
        Self {
            file,
            events: Events::new(catalog, via),
            globals,
            target,
            handlers: Vec::new(),
            wanted: Vec::new(),
            objects: Vec::new(),
            known: HashMap::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            remarks: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// The tables' rows laid out over the events.
    pub(super) fn tables(&mut self, names: &[&str]) -> Result<Vec<Cells>> {
        names.iter().map(|name| self.table(name)).collect()
    }

    fn table(&mut self, name: &str) -> Result<Cells> {
        let file = self.file;
        let mut cells = Cells::new();
        for table in file.lineage(name) {
            // Functions that have a jprobe in this very table: another table may say otherwise, a second one here is a mistake.
            let mut jprobes = HashSet::new();
            for probe in &table.probes {
                self.row(probe, &mut cells, &mut jprobes)?;
            }
        }
        Ok(cells)
    }

    fn row(&mut self, probe: &'a Probe, cells: &mut Cells, jprobes: &mut HashSet<usize>) -> Result<()> {
        let file = self.file;
        let masks = probe.block.as_ref().is_some_and(|b| b.statements.is_empty());
        let handler = match masks {
            true => None,
            // What is wrong with an object has been said.
            false => Some(self.handler(probe)),
        };
        let start = behind(&file.text, probe).0;
        for spec in &probe.events {
            let taken = (0..cells.len()).filter(|&event| cells[event].is_some());
            let unlisted = match is_name(spec) {
                true => Vec::new(),
                false => self.events.unlisted(spec, taken),
            };
            let matched = match self.events.find(spec) {
                Ok(matched) => matched,
                Err(_) if !unlisted.is_empty() => Rc::default(),
                Err(error) => {
                    // Where a kernel has nothing of a kind, masking that is no mistake.
                    let quiet = masks && self.events.may_be_absent(spec, &error);
                    if !quiet {
                        self.unmatched(spec.span, !masks && is_name(spec), error)?;
                    }
                    continue;
                }
            };
            cells.resize(self.events.len(), None);
            let unlisted = unlisted
                .iter()
                .filter(|found| !matched.iter().any(|m| m.event == found.event));
            for found in matched.iter().chain(unlisted) {
                if !masks
                    && is_name(spec)
                    && let Some((name, known)) = self.events.known_as(*found)
                {
                    let message = format!("{name} is another name of {known}: they are one event");
                    let before = cells[found.event].map(|cell| Some(cell.handler) == handler);
                    self.one_event(spec.span, message, before);
                }
                if !masks
                    && is_name(spec)
                    && let Some(function) = self.events.jprobe(found.event)
                    && !jprobes.insert(found.event)
                {
                    let why = jprobe::second(function).to_string();
                    self.wrong(vec![Diagnostic::error(spec.span, why)]);
                }
                cells[found.event] = handler.map(|handler| Cell {
                    handler,
                    named: is_name(spec),
                    in_set: found.in_set,
                    start,
                });
            }
        }
        Ok(())
    }

    /// Says that an event has been met under another name; `before` whether the table has this very handler for it, if it has one.
    fn one_event(&mut self, span: Span, message: String, before: Option<bool>) {
        let hint = match before {
            Some(true) => "it meets the handler once",
            Some(false) => {
                "this row takes the place of the one before, as a later row of the same event does; to have both, write one block"
            }
            None => "in all tables it is recorded under one of its names",
        };
        let diagnostic = Diagnostic::warning(span, message).hint(hint);
        if !self.warnings.iter().any(|d| d.span == span) {
            self.warnings.push(diagnostic);
        }
    }

    /// A pattern may match nothing on one kernel and much on the next; a name must be there.
    fn unmatched(&mut self, span: Span, must: bool, error: Error) -> Result<()> {
        let mistyped = match &error {
            Error::NoSuchEvent { what, .. } => what == "class",
            other => matches!(other, Error::WrongShape { .. } | Error::NotYet { .. }),
        };
        let (message, hint) = about(error)?;
        let (to, diagnostic) = match must || mistyped {
            true => (&mut self.errors, Diagnostic::error(span, message)),
            false => (&mut self.warnings, Diagnostic::warning(span, message)),
        };
        if !to.iter().any(|d| d.span == span) {
            to.push(diagnostic.maybe_hint(hint));
        }
        Ok(())
    }

    /// The number of a row's handler: rows with the same predicate and block share one.
    fn handler(&mut self, probe: &Probe) -> usize {
        let file = self.file;
        let (_, text) = behind(&file.text, probe);
        if let Some(&known) = self.known.get(text) {
            return known;
        }
        let mut probe = probe.clone();
        if let Target::Process(pid) = self.target {
            super::guard(&mut probe, &format!("pid == {pid}"), &file.text);
        }
        let wanted = probe.object.as_ref().and_then(|object| self.object(object));
        self.wanted.push(wanted);
        self.handlers.push(probe);
        self.known.insert(text, self.handlers.len() - 1);
        self.handlers.len() - 1
    }

    /// The object of a row, read once; what is wrong with it is said.
    fn object(&mut self, written: &Spanned<String>) -> Option<Wanted> {
        let beside = Path::new(&self.file.name).parent().unwrap_or(Path::new(""));
        match Wanted::read(&written.node, beside, &mut self.objects) {
            Ok(wanted) => Some(wanted),
            Err(error) => {
                let mut diagnostic = Diagnostic::error(written.span, error.to_string());
                if matches!(error, Error::Io { .. }) && Path::new(&written.node).is_relative() {
                    diagnostic = diagnostic.hint("the path counts from where the table file is");
                }
                self.wrong(vec![diagnostic]);
                None
            }
        }
    }

    /// Events of the same handlers together, in the order of their first; those that are masked everywhere are left out.
    pub(super) fn groups(&self, tables: &[Cells]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<(usize, Vec<Option<usize>>), usize> = HashMap::new();
        for event in 0..self.events.len() {
            let cells: Vec<Option<Cell>> = tables
                .iter()
                .map(|table| table.get(event).copied().flatten())
                .collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let together = cells.iter().flatten().all(|cell| cell.in_set);
            let set = self.events.set_of(event).filter(|_| together);
            let next = groups.len();
            let place = set.map_or(next, |set| {
                let handlers = cells.iter().map(|cell| cell.map(|c| c.handler)).collect();
                *places.entry((set, handlers)).or_insert(next)
            });
            if place == next {
                groups.push(Group {
                    set,
                    events: Vec::new(),
                    cells,
                });
            }
            groups[place].events.push(event);
        }
        groups
    }

    /// A hook for each group.
    pub(super) fn hooks(&mut self, groups: Vec<Group>, numbers: &[u32]) -> Vec<Hook> {
        let mut hooks = Vec::new();
        for group in groups {
            let resolved = match (group.set, group.events.as_slice()) {
                (_, &[one]) => self.events.one(one),
                (Some(set), several) => Some(self.events.several(set, several)),
                (None, _) => None,
            };
            let Some(resolved) = resolved else { continue };
            let (candidates, own) =
                candidates(self.file, (&self.handlers, &self.wanted), &group.cells, numbers);
            match check_set(resolved, &candidates, &mut self.globals) {
                Ok(checked) => {
                    for checked in checked {
                        let names = &checked.names;
                        for refused in checked.refused {
                            let remark = left_out(&self.handlers[own[refused.candidate]], refused.why);
                            note(&mut self.remarks, &mut self.places, remark, names, false);
                        }
                        for (candidate, remark) in checked.remarks {
                            let required = candidates[candidate].required;
                            note(&mut self.remarks, &mut self.places, remark, names, required);
                        }
                        hooks.extend(checked.companions);
                        hooks.extend(checked.hook);
                    }
                }
                Err(refused) => {
                    let handler = own[refused.candidate];
                    drop(candidates);
                    self.refused(handler, &group.cells, refused.why);
                }
            }
        }
        hooks
    }

    /// Reports why a handler does not hold for an event that a row names: at that row, if another has the same handler.
    pub(super) fn refused(&mut self, handler: usize, cells: &[Option<Cell>], mut why: Vec<Diagnostic>) {
        let first = behind(&self.file.text, &self.handlers[handler]).0;
        let mut mine = cells
            .iter()
            .flatten()
            .filter(|cell| cell.handler == handler && cell.named);
        if let Some(cell) = mine.next() {
            let moved = |span: &mut Span| {
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
        self.wrong(why);
    }

    /// Reports findings, each once.
    pub(super) fn wrong(&mut self, why: Vec<Diagnostic>) {
        for diagnostic in why {
            if !self.errors.contains(&diagnostic) {
                self.errors.push(diagnostic);
            }
        }
    }

    /// The object that a row names.
    pub(super) fn object_of(&self, cell: Cell) -> Option<&Wanted> {
        self.wanted.get(cell.handler)?.as_ref()
    }

    /// Candidates for one event or set, and which handler each is.
    pub(super) fn candidates(
        &self,
        cells: &[Option<Cell>],
        numbers: &[u32],
    ) -> (Vec<Candidate<'_>>, Vec<usize>) {
        candidates(self.file, (&self.handlers, &self.wanted), cells, numbers)
    }

    /// A handler does not hold for events that only a pattern named.
    pub(super) fn left_out(&mut self, handler: usize, why: Vec<Diagnostic>, names: &[String]) {
        let remark = left_out(&self.handlers[handler], why);
        note(&mut self.remarks, &mut self.places, remark, names, false);
    }

    /// The end: what was found.
    pub(super) fn finish(mut self) -> Result<Done> {
        let unwritten = self.globals.unwritten.iter();
        self.errors
            .extend(unwritten.map(|(_, diagnostic)| diagnostic.clone()));
        if !self.errors.is_empty() {
            self.errors.sort_by_key(|d| d.span.start);
            return Err(Error::Table {
                file: self.file.name.clone(),
                source_text: self.file.text.to_string(),
                diagnostics: self.errors,
            });
        }
        self.warnings.extend(self.file.warnings.iter().cloned());
        let remarks = self
            .remarks
            .into_iter()
            .map(|(diagnostic, events)| gather(diagnostic, &events));
        self.warnings.extend(remarks);
        self.warnings.sort_by_key(|d| d.span.start);
        let text = self.file.text.to_string();
        Ok(Done {
            globals: self.globals,
            objects: self.objects,
            warnings: self.warnings.into_iter().map(|d| (text.clone(), d)).collect(),
        })
    }
}

/// What is said of a handler that does not hold for some of its events.
fn left_out(handler: &Probe, why: Vec<Diagnostic>) -> Diagnostic {
    let why = why.into_iter().next();
    let (span, message) = why.map_or_else(
        || (handler.span, "it cannot be seen here".to_owned()),
        |d| (d.span, d.message),
    );
    Diagnostic::warning(span, format!("{LEFT_OUT}: {message}"))
}

/// How it is said that an event is not in the table after all.
const LEFT_OUT: &str = "left out";

/// Predicate and block of a row: what stands behind its events, and where.
fn behind<'t>(text: &'t str, probe: &Probe) -> (u32, &'t str) {
    let start = probe
        .events
        .last()
        .map_or(probe.span.start, |event| event.span.end);
    let rest = text
        .get(start as usize..probe.span.end as usize)
        .unwrap_or_default();
    let apart = |c: char| c == ',' || c == ';' || c.is_whitespace();
    let trimmed = rest.trim_start_matches(apart);
    let start = start + (rest.len() - trimmed.len()) as u32;
    (start, trimmed.trim_end_matches(apart))
}

fn candidates<'h>(
    file: &TableFile,
    (handlers, wanted): (&'h [Probe], &[Option<Wanted>]),
    cells: &[Option<Cell>],
    numbers: &[u32],
) -> (Vec<Candidate<'h>>, Vec<usize>) {
    let mut candidates: Vec<Candidate<'h>> = Vec::new();
    let mut own: Vec<usize> = Vec::new();
    for (cell, &number) in cells.iter().zip(numbers) {
        let Some(cell) = cell else { continue };
        let place = own.iter().position(|&h| h == cell.handler).unwrap_or_else(|| {
            own.push(cell.handler);
            candidates.push(Candidate {
                probe: &handlers[cell.handler],
                object: wanted[cell.handler].clone(),
                source: file.text.clone(),
                tables: Vec::new(),
                required: false,
            });
            own.len() - 1
        });
        candidates[place].tables.push(number);
        candidates[place].required |= cell.named;
    }
    (candidates, own)
}

/// Keeps a remark: the same one about another event only lengthens the list of events.
fn note(
    remarks: &mut Vec<(Diagnostic, Vec<String>)>,
    places: &mut HashMap<(Span, String), usize>,
    remark: Diagnostic,
    names: &[String],
    named: bool,
) {
    let key = match named {
        true => remark.message.clone(),
        false => kind_of(&remark.message, names),
    };
    let next = remarks.len();
    let place = *places.entry((remark.span, key)).or_insert(next);
    if place == next {
        remarks.push((remark, Vec::new()));
    }
    for name in names {
        if !remarks[place].1.contains(name) {
            remarks[place].1.push(name.clone());
        }
    }
}

/// A message without the names in it: what is the same about many events.
fn kind_of(message: &str, names: &[String]) -> String {
    let bare: String = message.split('"').step_by(2).collect();
    names
        .iter()
        .fold(bare, |bare, name| bare.replace(name.as_str(), ""))
}

/// Events that a warning lists by name.
const LISTED: usize = 5;

/// One remark about many events.
fn gather(diagnostic: Diagnostic, events: &[String]) -> Diagnostic {
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
