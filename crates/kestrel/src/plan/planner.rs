//! From probes to hooks: which handler each event meets in each table, and one hook for the events that can be seen together.

use super::check_handlers::{CalledProgram, Candidate, check_set};
use super::events::{Events, about, is_name};
use super::findings::Findings;
use super::hook::{Hook, whole_name};
use super::own_events;
use super::program_types;
use super::source::{Options, ProgramText};
use super::{calls, targets, text, together};
use kestrel_bpf::btf::Btf;
use kestrel_catalog::attach::Mechanism;
use kestrel_catalog::catalog::{Catalog, Resolved, find_kind, is_own_event, jprobe, text_of};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::definition::overlay;
use kestrel_compiler::lang::ast::{Definition, Probe, Span, Spanned};
use kestrel_compiler::lang::config::MissingProbes;
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_compiler::lang::parse_probes;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::table::TableFile;
use kestrel_object::HandlerFile;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Functions named one by one with the default record share a link from so many on; fewer have their parameters in the record, each its own.
const MANY: usize = 17;

/// What an event meets in one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Which handler.
    pub(super) handler: usize,
    /// Whether the handler must hold for the event: it was named, not only matched by a pattern.
    required: bool,
    /// Whether the pattern was resolved to a set.
    in_set: bool,
    /// Where the row's own spelling of the handler begins.
    start: u32,
}

/// One table: what each event meets in it; events beyond the end meet nothing.
pub(super) type Cells = Vec<Option<Cell>>;

/// Events that meet the same handlers in all tables, and can be seen together.
pub(super) struct Group {
    events: Resolved,
    /// What they meet, by table.
    cells: Vec<Option<Cell>>,
}

impl Group {
    /// What the events are attached to by the best strategy.
    fn mechanism(&self) -> Option<&Mechanism> {
        self.events.ways.first().map(|way| &way.mechanism)
    }
}

/// The outcome of planning, beside the hooks.
pub(super) struct Done {
    pub(super) globals: Globals,
    pub(super) objects: Vec<Arc<HandlerFile>>,
    pub(super) warnings: Vec<(String, Diagnostic)>,
}

/// The text whose probes are being planned.
pub(super) struct Text {
    pub(super) source: Arc<str>,
    /// The name of the table file; texts of `-e` have none.
    file: Option<String>,
    /// The directory that paths of compiled objects count from.
    beside: PathBuf,
}

/// A handler as it was written: a predicate and a block.
struct Written {
    /// As written, with what the options add; its events are those of the row that had it first.
    probe: Probe,
    /// The text that its spans count in.
    source: Arc<str>,
    /// The compiled object's program that it calls, if any.
    object: Option<CalledProgram>,
    /// Whether it was written without a block.
    is_default: bool,
}

/// The planner: texts become hooks.
pub(super) struct Planner<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) options: Options,
    pub(super) events: Events<'a>,
    pub(super) globals: Globals,
    pub(super) text: Text,
    handlers: Vec<Written>,
    /// Handlers of the text by what is written.
    known: HashMap<String, usize>,
    /// Functions that have a jprobe: a second one is a mistake.
    jprobes: HashSet<String>,
    objects: Vec<Arc<HandlerFile>>,
    pub(super) findings: Findings,
    pub(super) warnings: Vec<(String, Diagnostic)>,
    /// What is done about events that do not exist, where a program is planned.
    pub(super) missing_probes: Option<MissingProbes>,
    /// Patterns of the probe being planned that match nothing, with why.
    pub(super) unmatched: Vec<(Span, String)>,
    /// The kernel's types with those that a program defines, if it does.
    types: Option<Arc<Btf>>,
    /// Whether the probe being planned can share a program with the one at the other end of its functions.
    in_call: bool,
    /// The types of C that a program defines.
    definitions: Vec<Definition>,
    /// The numbers of maps that no handler had written when a text of `-e` was planned, with the text.
    unwritten: Vec<(u32, Arc<str>)>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(catalog: &'a Catalog, options: Options, globals: Globals) -> Self {
        Self {
            catalog,
            events: Events::new(catalog, options.via),
            options,
            globals,
            text: Text {
                source: "".into(),
                file: None,
                beside: PathBuf::new(),
            },
            handlers: Vec::new(),
            known: HashMap::new(),
            jprobes: HashSet::new(),
            objects: Vec::new(),
            findings: Findings::default(),
            warnings: Vec::new(),
            missing_probes: None,
            unmatched: Vec::new(),
            types: None,
            in_call: false,
            definitions: Vec::new(),
            unwritten: Vec::new(),
        }
    }

    /// Plans the probes of a file from here on.
    pub(super) fn begin_file(&mut self, file: &TableFile) {
        self.text = Text {
            source: file.text.clone(),
            file: Some(file.name.clone()),
            beside: Path::new(&file.name).parent().unwrap_or(Path::new("")).into(),
        };
        self.warnings
            .extend(file.warnings.iter().map(|d| (file.text.to_string(), d.clone())));
    }

    /// The hooks of texts of `-e`: each probe adds its handler to its events, whatever other probes they meet.
    pub(super) fn texts(&mut self, texts: &[String]) -> Result<Vec<Hook>> {
        let mut hooks = Vec::new();
        let mut planned: HashSet<String> = HashSet::new();
        for text in texts {
            let (probes, found) = parse_probes(text);
            if has_errors(&found) {
                return Err(Error::Program {
                    source_text: text.clone(),
                    diagnostics: found,
                });
            }
            self.warnings.extend(found.into_iter().map(|d| (text.clone(), d)));
            let source: Arc<str> = text.as_str().into();
            for probe in probes {
                // The same probe written twice asks for nothing more; a second jprobe of a function is a mistake.
                if !planned.insert(written(text, probe.span).to_owned()) && !names_jprobe(&probe) {
                    continue;
                }
                hooks.extend(self.text_probe(&source, &probe, planned.len() - 1)?);
            }
        }
        Ok(hooks)
    }

    /// The hooks of a program, each handler with its own.
    pub(super) fn program(&mut self, program: &ProgramText) -> Result<Vec<Hook>> {
        let warnings = program.warnings.iter().cloned();
        self.warnings
            .extend(warnings.map(|d| (program.text.to_string(), d)));
        let mut hooks = Vec::new();
        if !program.definitions.is_empty() {
            let base = self.catalog.types().ok();
            let known = |name: &str| base.as_ref()?.enumerator(name).map(|found| found.value);
            let (types, found) = overlay(&program.definitions, base.as_ref(), &known);
            if has_errors(&found) {
                return Err(Error::Program {
                    source_text: program.text.to_string(),
                    diagnostics: found,
                });
            }
            self.types = types;
            self.definitions.clone_from(&program.definitions);
        }
        self.missing_probes = Some(program.config.missing_probes);
        let mut failed = None;
        let probes = together::joined(&program.text, &program.probes);
        let calls = match self.options.apart || !self.catalog.has_kprobe_sessions() {
            true => vec![None; probes.len()],
            false => calls::pairs(&probes),
        };
        for ((number, probe), call) in probes.iter().enumerate().zip(calls) {
            self.unmatched.clear();
            self.in_call = call.is_some();
            match self.text_probe(&program.text, probe, number) {
                Ok(more) if more.is_empty() => {
                    self.without_events(probe);
                    failed = failed.or(self.nothing_matches(probe));
                }
                Ok(more) => {
                    let handlers = together::handlers(probe);
                    hooks.extend(more.into_iter().map(|hook| Hook {
                        handlers,
                        call,
                        ..hook
                    }));
                }
                // What the other probes say of maps is wanted all the same.
                Err(error) => failed = failed.or(Some(self.alone(probe, error))),
            }
        }
        calls::join(&mut hooks);
        match failed {
            Some(error) => Err(error),
            None if hooks.is_empty() => Err(self.nothing_left()),
            None => self.within_limits(program, &hooks).map(|()| hooks),
        }
    }

    /// The hooks of one probe, whatever other probes its events meet; `number` tells it from those.
    fn text_probe(&mut self, source: &Arc<str>, probe: &Probe, number: usize) -> Result<Vec<Hook>> {
        self.text.source = source.clone();
        self.events = Events::new(self.catalog, self.options.via);
        self.events.with_modules = false;
        self.known.clear();
        self.globals.text = number.to_string();
        let cells = self.table([std::slice::from_ref(probe)])?;
        let groups = self.groups(&[cells])?;
        let hooks = self.hooks(groups, &[1]);
        self.end_text()?;
        Ok(hooks)
    }

    /// The rows of a file's tables laid out over the events.
    pub(super) fn tables(&mut self, file: &TableFile, names: &[&str]) -> Result<Vec<Cells>> {
        let levels = |name| {
            file.lineage(name)
                .into_iter()
                .map(|table| table.probes.as_slice())
        };
        names.iter().map(|&name| self.table(levels(name))).collect()
    }

    /// One table, from its oldest ancestor's rows on.
    fn table<'p>(&mut self, levels: impl IntoIterator<Item = &'p [Probe]>) -> Result<Cells> {
        let mut cells = Cells::new();
        for probes in levels {
            // Another table may have its own jprobe of a function; another text of `-e` runs at the same time.
            if self.text.file.is_some() {
                self.jprobes.clear();
            }
            for probe in probes {
                self.row(probe, &mut cells)?;
            }
        }
        Ok(cells)
    }

    fn row(&mut self, probe: &Probe, cells: &mut Cells) -> Result<()> {
        let in_file = self.text.file.is_some();
        let masks = in_file && probe.block.as_ref().is_some_and(|b| b.statements.is_empty());
        let handler = match masks {
            true => None,
            // An error of its object is among the findings.
            false => Some(self.handler(probe)),
        };
        let start = behind(&self.text.source, probe).0;
        for spec in &probe.events {
            let taken = (0..cells.len()).filter(|&event| cells[event].is_some());
            let unlisted = match is_name(spec) {
                true => Vec::new(),
                false => self.events.unlisted(spec, taken),
            };
            // Only a program that runs fires them.
            let own = spec.parts.first().and_then(|part| find_kind(&part.text));
            let own = own.filter(|_| !self.globals.rounds);
            let found = match own {
                Some(kind) if is_own_event(kind.name()) => Err(Error::NotYet {
                    wanted: text_of(spec),
                    kind: kind.name(),
                }),
                _ => self.events.find(spec),
            };
            let matched = match found {
                Ok(matched) => matched,
                Err(_) if !unlisted.is_empty() => Rc::default(),
                Err(error) if !in_file => {
                    self.missing(spec, error)?;
                    continue;
                }
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
                if !self.is_wanted(*found) || !self.is_traceable(spec, *found)? {
                    continue;
                }
                let before = cells[found.event];
                let same = |cell: &Cell| Some(cell.handler) == handler;
                let is_single = |cell: &Cell| same(cell) && !cell.in_set;
                if !masks
                    && (is_name(spec) || before.as_ref().is_some_and(is_single))
                    && let Some((name, known)) = self.events.known_as(*found)
                {
                    let message = format!("{name} is another name of {known}: they are one event");
                    self.one_event(spec.span, message, before.as_ref().map(same));
                }
                if !masks
                    && is_name(spec)
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
                cells[found.event] = handler.map(|handler| Cell {
                    handler,
                    required: !in_file || is_name(spec) || before.is_some_and(|cell| cell.required),
                    // An event that is named by itself is seen by itself, with its own types.
                    in_set: found.in_set && before.is_none_or(|cell| cell.in_set),
                    start,
                });
            }
        }
        Ok(())
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
            other => matches!(other, Error::WrongShape { .. } | Error::NotYet { .. }),
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

    /// The number of a row's handler: rows with the same predicate and block share one.
    fn handler(&mut self, probe: &Probe) -> usize {
        let source = self.text.source.clone();
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
        match CalledProgram::read(&named.node, &self.text.beside, &mut self.objects) {
            Ok(wanted) => Some(wanted),
            Err(error) => {
                let mut diagnostic = Diagnostic::error(named.span, error.to_string());
                let is_relative = self.text.file.is_some() && Path::new(&named.node).is_relative();
                if matches!(error, Error::Io { .. }) && is_relative {
                    diagnostic = diagnostic.hint("the path counts from where the table file is");
                }
                self.findings.wrong(vec![diagnostic]);
                None
            }
        }
    }

    /// Events of the same handlers together, in the order of their first; those that are masked everywhere are left out.
    pub(super) fn groups(&self, tables: &[Cells]) -> Result<Vec<Group>> {
        type Draft = (Option<usize>, Vec<usize>, Vec<Option<Cell>>);
        let mut drafts: Vec<Draft> = Vec::new();
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
            let next = drafts.len();
            let place = set.map_or(next, |set| *places.entry((set, handlers(&cells))).or_insert(next));
            if place == next {
                drafts.push((set, Vec::new(), cells));
            }
            drafts[place].1.push(event);
        }
        let resolved = drafts.into_iter().filter_map(|(set, events, cells)| {
            let events = match (set, events.as_slice()) {
                (_, &[one]) => self.events.one(one)?,
                (Some(set), several) => self.events.several(set, several),
                (None, _) => return None,
            };
            Some(Group { events, cells })
        });
        self.join(resolved.collect())
    }

    /// Single functions of the same handlers put together: attached in one operation where the kernel can. In a program, system calls, too: instead of a
    /// program for each of them one runs when any is made.
    fn join(&self, groups: Vec<Group>) -> Result<Vec<Group>> {
        let joins = |group: &Group| {
            let mut ways = group.events.ways.iter();
            let calls = self.missing_probes.is_some() && group.events.is_on_all_calls();
            group.events.instances.len() == 1 && (calls || ways.all(|way| way.mechanism.joins()))
        };
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for (place, group) in groups.iter().enumerate().filter(|(_, group)| joins(group)) {
            let same = |set: &&mut Vec<usize>| {
                let first = &groups[set[0]];
                first.events.kind == group.events.kind
                    && first.mechanism() == group.mechanism()
                    && handlers(&first.cells) == handlers(&group.cells)
            };
            match sets.iter_mut().find(same) {
                Some(set) => set.push(place),
                None => sets.push(vec![place]),
            }
        }
        // Each function by itself has its own types in the default record; below this number they are worth more than one link.
        sets.retain(|set| {
            let cells = groups[set[0]].cells.iter().flatten();
            let is_default = cells
                .map(|cell| &self.handlers[cell.handler])
                .any(|h| h.is_default);
            set.len() >= if is_default { MANY } else { 2 }
        });
        let mut groups: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
        for places in sets {
            let singles = places.iter().filter_map(|&place| groups[place].as_ref());
            let singles: Vec<Resolved> = singles.map(|group| group.events.clone()).collect();
            let names = singles.iter().map(|single| single.instances[0].name.clone());
            let names: Vec<String> = names.collect();
            let Some(mut set) = self.events.set_of_names(singles[0].kind, &names)? else {
                continue;
            };
            for (instance, single) in set.instances.iter_mut().zip(&singles) {
                instance.identity.clone_from(&single.instances[0].identity);
            }
            // Kept for handlers that turn out to need what differs between the functions.
            set.apart = singles;
            for &place in &places[1..] {
                groups[place] = None;
            }
            if let Some(first) = &mut groups[places[0]] {
                first.events = set;
            }
        }
        Ok(groups.into_iter().flatten().collect())
    }

    /// A hook for each group.
    pub(super) fn hooks(&mut self, groups: Vec<Group>, numbers: &[u32]) -> Vec<Hook> {
        let mut hooks = Vec::new();
        let groups = groups.into_iter().flat_map(|Group { events, cells }| {
            let apart = targets::apart(events, &self.options).into_iter();
            apart.map(move |events| (events, cells.clone()))
        });
        for (mut events, cells) in groups.collect::<Vec<_>>() {
            let wanted = cells.iter().flatten();
            let handlers = wanted.filter_map(|cell| Some(&self.handlers.get(cell.handler)?.probe));
            program_types::add(self.catalog, handlers, &mut events);
            if self.in_call {
                calls::add_way(&mut events);
            }
            if let Some(types) = &self.types {
                program_types::lay_over(self.catalog, &self.definitions, types, &mut events);
            }
            if self.globals.rounds {
                with_kind(&mut events);
            }
            // The events of one process, or of a command, are none of the recorder's.
            let everyone = self.options.target == ProcessFilter::All;
            if let Some(own) = self.options.leave_out.filter(|_| everyone) {
                own_events::leave_out(&mut events, own);
            }
            let about = targets::admit(&mut events, &self.options);
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
    pub(super) fn refused(&mut self, handler: usize, cells: &[Option<Cell>], mut why: Vec<Diagnostic>) {
        let first = behind(&self.text.source, &self.handlers[handler].probe).0;
        let mut mine = cells
            .iter()
            .flatten()
            .filter(|cell| cell.handler == handler && cell.required);
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
        self.findings.wrong(why);
    }

    /// The object that a row names.
    pub(super) fn object_of(&self, cell: Cell) -> Option<&CalledProgram> {
        self.handlers.get(cell.handler)?.object.as_ref()
    }

    /// Candidates for one event or set, and which handler each is.
    pub(super) fn candidates(
        &self,
        cells: &[Option<Cell>],
        numbers: &[u32],
    ) -> (Vec<Candidate<'_>>, Vec<usize>) {
        candidates(&self.handlers, cells, numbers)
    }

    /// A handler does not hold for events that only a pattern named.
    pub(super) fn left_out(&mut self, handler: usize, why: Vec<Diagnostic>, names: &[String]) {
        self.findings.left_out(&self.handlers[handler].probe, why, names);
    }

    /// Passes the findings about a text on, or refuses the text.
    fn end_text(&mut self) -> Result<()> {
        let source_text = self.text.source.to_string();
        match std::mem::take(&mut self.findings).finish() {
            Ok(warnings) => {
                let warnings = warnings.into_iter().map(|d| (source_text.clone(), d));
                self.warnings.extend(warnings);
            }
            Err(diagnostics) => {
                return Err(match self.text.file.clone() {
                    Some(file) => Error::Table {
                        file,
                        source_text,
                        diagnostics,
                    },
                    None => Error::Program {
                        source_text,
                        diagnostics,
                    },
                });
            }
        }
        for (number, _) in &self.globals.unwritten {
            if !self.unwritten.iter().any(|(known, _)| known == number) {
                self.unwritten.push((*number, self.text.source.clone()));
            }
        }
        Ok(())
    }

    /// Finishes planning; a map that is read but never written is an error.
    pub(super) fn finish(mut self) -> Result<Done> {
        let unwritten = self.globals.unwritten.iter();
        match self.text.file {
            Some(_) => {
                let all = unwritten.map(|(_, diagnostic)| diagnostic.clone());
                self.findings.wrong(all.collect());
            }
            None => {
                if let Some((number, diagnostic)) = self.globals.unwritten.first() {
                    let text = self.unwritten.iter().find(|(n, _)| n == number);
                    return Err(Error::Program {
                        source_text: text.map_or_else(String::new, |(_, text)| text.to_string()),
                        diagnostics: vec![diagnostic.clone()],
                    });
                }
            }
        }
        self.end_text()?;
        Ok(Done {
            globals: self.globals,
            objects: self.objects,
            warnings: self.warnings,
        })
    }
}

/// Whether an event of a probe is a jprobe.
fn names_jprobe(probe: &Probe) -> bool {
    let kinds = probe.events.iter().filter_map(|spec| spec.parts.first());
    let mut kinds = kinds.filter_map(|part| find_kind(&part.text));
    kinds.any(|kind| kind.name() == jprobe::NAME)
}

/// The handlers of an event, by table.
fn handlers(cells: &[Option<Cell>]) -> Vec<Option<usize>> {
    cells.iter().map(|cell| cell.map(|c| c.handler)).collect()
}

/// The part of a text at a span.
fn written(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize)
        .unwrap_or_default()
}

/// Programs know tracepoints by their whole names, as bpftrace does: what `probe` is begins with the kind.
fn with_kind(events: &mut Resolved) {
    let apart = events.apart.iter_mut().flat_map(|one| &mut one.ways);
    for way in events.ways.iter_mut().chain(apart) {
        way.context.name = whole_name(events.kind, &way.context.name);
    }
}

/// Predicate and block of a row, with their offset.
fn behind<'t>(text: &'t str, probe: &Probe) -> (u32, &'t str) {
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
    let apart = |c: char| c == ',' || c == ';' || c.is_whitespace();
    let trimmed = rest.trim_start_matches(apart);
    let start = start + (rest.len() - trimmed.len()) as u32;
    (start, trimmed.trim_end_matches(apart))
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
