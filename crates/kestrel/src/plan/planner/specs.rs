//! Hooks of event specifications (`-e`) and of programs: each probe has hooks of its own, whatever other probes its events meet.

use super::handler::written;
use super::overlap::ProbePart;
use super::{Planner, Turn};
use crate::plan::events::Events;
use crate::plan::hook::Hook;
use crate::plan::source::ProgramText;
use crate::plan::{calls, together};
use kestrel_catalog::catalog::{find_kind, jprobe};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::definition::overlay;
use kestrel_compiler::lang::ast::Probe;
use kestrel_compiler::lang::diag::has_errors;
use kestrel_compiler::lang::expand::with_library;
use kestrel_compiler::lang::parse_probes;
use std::collections::HashSet;
use std::sync::Arc;

impl Planner<'_> {
    /// The hooks of event specifications (`-e`): each probe adds its handler to its events, whatever other probes they meet.
    pub(in crate::plan) fn specs(&mut self, specs: &[String]) -> Result<Vec<Hook>> {
        let mut hooks = Vec::new();
        let mut planned: HashSet<String> = HashSet::new();
        for spec in specs {
            let (probes, mut found) = parse_probes(spec);
            let (probes, wrong) = with_library(probes);
            found.extend(wrong);
            if has_errors(&found) {
                return Err(Error::Program {
                    source_text: spec.clone(),
                    diagnostics: found,
                });
            }
            self.warnings.extend(found.into_iter().map(|d| (spec.clone(), d)));
            let source: Arc<str> = spec.as_str().into();
            for probe in probes {
                // The same probe written twice asks for nothing more; a second jprobe of a function is a mistake.
                if !planned.insert(written(spec, probe.span).to_owned()) && !names_jprobe(&probe) {
                    continue;
                }
                hooks.extend(self.probe_hooks(&source, &probe, planned.len() - 1)?);
            }
        }
        Ok(hooks)
    }

    /// The hooks of a program, each handler with its own.
    pub(in crate::plan) fn program(&mut self, program: &ProgramText) -> Result<Vec<Hook>> {
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
        let parts = self.parts(&program.text, &program.probes);
        let probes: Vec<Probe> = parts.iter().map(|part| part.probe.clone()).collect();
        let calls = match self.options.separate_returns || !self.catalog.has_kprobe_sessions() {
            true => vec![None; probes.len()],
            false => calls::pairs(&probes),
        };
        for ((number, part), call) in parts.into_iter().enumerate().zip(calls) {
            let ProbePart { ref probe, only } = part;
            let call = call.filter(|_| only.is_none());
            self.only = only;
            let warned = self.warnings.len();
            self.unmatched.clear();
            self.nothing_matched = false;
            self.in_call = call.is_some();
            match self.probe_hooks(&program.text, probe, number) {
                Ok(more) if more.is_empty() => {
                    self.without_events(probe);
                    failed = failed.or(self.nothing_matches(probe));
                }
                Ok(more) => {
                    let handlers = together::handlers(probe);
                    hooks.extend(more.into_iter().map(|hook| Hook {
                        merged_probes: handlers,
                        entry_exit_id: call.filter(|_| hook.turn == 0),
                        ..hook
                    }));
                }
                // Uses of maps in the other probes are wanted all the same.
                Err(error) => failed = failed.or(Some(self.alone(probe, error))),
            }
            self.drop_repeated_warnings(warned);
        }
        self.only = None;
        calls::join(&mut hooks);
        match failed {
            Some(error) => Err(error),
            None if hooks.is_empty() => Err(self.nothing_left()),
            None => self.within_limits(program, &hooks).map(|()| hooks),
        }
    }

    /// The hooks of one probe, whatever other probes its events meet; `number` is the probe's own. A program's probe has hooks for each time that it names
    /// an event.
    fn probe_hooks(&mut self, source: &Arc<str>, probe: &Probe, number: usize) -> Result<Vec<Hook>> {
        self.turn = Turn::default();
        let mut all = Vec::new();
        loop {
            let turn = self.turn.number;
            let hooks = self.hooks_of_turn(source, probe, number)?;
            all.extend(hooks.into_iter().map(|hook| Hook { turn, ..hook }));
            if !self.turn.is_another_needed {
                return Ok(all);
            }
            self.turn = self.turn.next();
            // A call's two ends are one program in the first turn.
            self.in_call = false;
        }
    }

    fn hooks_of_turn(&mut self, source: &Arc<str>, probe: &Probe, number: usize) -> Result<Vec<Hook>> {
        self.source.text = source.clone();
        self.events = Events::new(self.catalog, self.options.via, &self.resolved);
        self.events.with_modules = false;
        self.known.clear();
        self.globals.text = number.to_string();
        let cells = self.table([std::slice::from_ref(probe)])?;
        let groups = self.groups(&[cells])?;
        let hooks = self.hooks(groups, &[1]);
        self.end_source()?;
        Ok(hooks)
    }
}

/// Whether an event of a probe is a jprobe.
fn names_jprobe(probe: &Probe) -> bool {
    let kinds = probe.events.iter().filter_map(|spec| spec.parts.first());
    let mut kinds = kinds.filter_map(|part| find_kind(&part.text));
    kinds.any(|kind| kind.name() == jprobe::NAME)
}
