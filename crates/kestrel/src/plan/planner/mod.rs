//! From probes to hooks: which handler each event meets in each table, and one hook for the events that can be seen together.
//!
//! | room | what it does |
//! |---|---|
//! | `specs` | event specifications (`-e`), and programs: each probe has hooks of its own |
//! | `cells` | tables of a file, laid out over the events |
//! | `handler` | handlers as they are written: rows with the same one share it |
//! | `group` | events with the same handlers, put together |
//! | `overlap` | probes whose events overlap: each event with the handlers of all of them |
//! | `hooks` | a hook for each group, its handlers checked |

pub(super) mod cells;
mod group;
mod handler;
mod hooks;
mod overlap;
mod specs;

use super::events::{EventSet, Events, Resolutions};
use super::findings::Findings;
use super::source::Options;
use handler::Written;
use kestrel_bpf::btf::Btf;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::ast::{Definition, Span};
use kestrel_compiler::lang::config::MissingProbes;
use kestrel_compiler::lang::diag::{Diagnostic, Severity};
use kestrel_hook::table::TableFile;
use kestrel_object::HandlerFile;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The planner: it makes hooks of sources.
pub(super) struct Planner<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) options: Options,
    pub(super) events: Events<'a>,
    /// Resolved specifications, for all turns over the events.
    pub(super) resolved: Resolutions,
    pub(super) globals: Globals,
    pub(super) source: CurrentSource,
    handlers: Vec<Written>,
    /// Handlers of the source by what is written.
    known: HashMap<String, usize>,
    /// Functions that have a jprobe: a second one is a mistake.
    jprobes: HashSet<String>,
    objects: Vec<Arc<HandlerFile>>,
    pub(super) findings: Findings,
    pub(super) warnings: Vec<(String, Diagnostic)>,
    /// Treatment of events that do not exist, where a program is planned.
    pub(super) missing_probes: Option<MissingProbes>,
    /// Patterns of the probe being planned that match nothing, with why.
    pub(super) unmatched: Vec<(Span, String)>,
    /// Which hits of a program's events are being planned: the first for each, or those of an event that a probe names again.
    pub(super) turn: Turn,
    /// The events that are planned now, where others of the probe are planned with other handlers.
    pub(super) only: Option<Rc<EventSet>>,
    /// Whether the error of the probe being planned is that an event of it does not exist.
    pub(super) nothing_matched: bool,
    /// The kernel's types with those that a program defines, if it does.
    types: Option<Arc<Btf>>,
    /// Whether the probe being planned can share a program with the one at the other end of its functions.
    in_call: bool,
    /// The types of C that a program defines.
    definitions: Vec<Definition>,
    /// The numbers of maps that no handler had written when an event specification was planned, with that.
    unwritten: Vec<(u32, Arc<str>)>,
}

/// A turn over the events of a program's probe: an event that is named so often, or matched by so many patterns, meets the handler as often.
#[derive(Default)]
pub(super) struct Turn {
    /// The number of the turn.
    pub(super) number: usize,
    /// By event, how many of the probe's specifications have named it in this turn.
    named: Vec<usize>,
    /// Whether an event has been named more often than there were turns.
    pub(super) is_another_needed: bool,
}

impl Turn {
    fn next(&self) -> Self {
        Self {
            number: self.number + 1,
            ..Self::default()
        }
    }

    /// Whether an event that one more specification names is planned in this turn.
    fn takes(&mut self, event: usize) -> bool {
        if self.named.len() <= event {
            self.named.resize(event + 1, 0);
        }
        let before = self.named[event];
        self.named[event] += 1;
        self.is_another_needed |= before > self.number;
        before == self.number
    }
}

/// The source whose probes are being planned.
pub(super) struct CurrentSource {
    pub(super) text: Arc<str>,
    /// The name of the table file; event specifications have none.
    file: Option<String>,
    /// The directory that paths of compiled objects count from.
    beside: PathBuf,
}

/// The outcome of planning, beside the hooks.
pub(super) struct Done {
    pub(super) globals: Globals,
    pub(super) objects: Vec<Arc<HandlerFile>>,
    pub(super) warnings: Vec<(String, Diagnostic)>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(catalog: &'a Catalog, options: Options, globals: Globals) -> Self {
        let resolved = Resolutions::default();
        Self {
            catalog,
            events: Events::new(catalog, options.via, &resolved),
            resolved,
            options,
            globals,
            source: CurrentSource {
                text: "".into(),
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
            turn: Turn::default(),
            only: None,
            nothing_matched: false,
            types: None,
            in_call: false,
            definitions: Vec::new(),
            unwritten: Vec::new(),
        }
    }

    /// Plans the probes of a file from here on.
    pub(super) fn begin_file(&mut self, file: &TableFile) {
        self.source = CurrentSource {
            text: file.text.clone(),
            file: Some(file.name.clone()),
            beside: Path::new(&file.name).parent().unwrap_or(Path::new("")).into(),
        };
        self.warnings
            .extend(file.warnings.iter().map(|d| (file.text.to_string(), d.clone())));
    }

    /// Passes the findings about a source on, or refuses the source.
    fn end_source(&mut self) -> Result<()> {
        let source_text = self.source.text.to_string();
        match std::mem::take(&mut self.findings).finish(&source_text) {
            Ok(warnings) => {
                let warnings = warnings.into_iter().map(|d| (source_text.clone(), d));
                self.warnings.extend(warnings);
            }
            Err(diagnostics) => {
                return Err(match self.source.file.clone() {
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
                self.unwritten.push((*number, self.source.text.clone()));
            }
        }
        Ok(())
    }

    /// Finishes planning; a map that is read but never written is an error, or a warning in programs.
    pub(super) fn finish(mut self) -> Result<Done> {
        let unwritten = &mut self.globals.unwritten;
        let odd = unwritten.extract_if(.., |(_, found)| found.severity == Severity::Warning);
        let unwritten = &self.unwritten;
        let text = |number| {
            unwritten
                .iter()
                .find(|(n, _)| *n == number)
                .map_or_else(String::new, |(_, text)| text.to_string())
        };
        self.warnings
            .extend(odd.map(|(number, warning)| (text(number), warning)));
        let unwritten = self.globals.unwritten.iter();
        match self.source.file {
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
        self.end_source()?;
        Ok(Done {
            globals: self.globals,
            objects: self.objects,
            warnings: self.warnings,
        })
    }
}
