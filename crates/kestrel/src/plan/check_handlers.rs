//! Handlers checked for the strategies to see their event: which of them hold, under which strategies; what the event is, the catalog has said before.

use super::entry_exit;
use super::hook::{Hook, PlannedHandler, PlannedStrategy, layouts};
use super::text::guard;
use kestrel_catalog::Error;
use kestrel_catalog::attach::Mechanism;
use kestrel_catalog::catalog::{Instance, Resolved, Strategy};
use kestrel_compiler::check::tree::{Action, CheckedProbe, StatementKind};
use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::{Context, EventNumber, Member};
use kestrel_compiler::lang::ast::Probe;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_object::{HandlerFile, handler};
use std::path::Path;
use std::sync::Arc;

/// A handler on its way into a hook.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    /// The handler as it is written.
    pub(crate) probe: &'a Probe,
    /// The compiled object that it names.
    pub(crate) object: Option<CalledProgram>,
    /// The text that its places count in.
    pub(crate) source: Arc<str>,
    /// Numbers of the tables that want it.
    pub(crate) tables: Vec<u32>,
    /// Whether it must hold: the event was named, not only matched by a pattern.
    pub(crate) required: bool,
}

/// The program of an object that a handler calls.
#[derive(Clone, Debug)]
pub(crate) enum CalledProgram {
    /// The program of the file that fits the event, or the one of this name.
    Of(Arc<HandlerFile>, Option<String>),
    /// The program of the file for a hook that is there already.
    There(Arc<HandlerFile>, Option<String>),
    /// The program of this name of the object that the session has from this path.
    Known(String, String),
}

impl CalledProgram {
    /// Reads the object that a handler's text names (`FILE` or `FILE:PROGRAM`); the file lies in `beside`, and is read anew unless it is among `objects`.
    ///
    /// # Errors
    /// As [`HandlerFile::read`].
    pub(crate) fn read(
        written: &str,
        beside: &Path,
        objects: &mut Vec<Arc<HandlerFile>>,
    ) -> Result<Self, Error> {
        let (path, program) = handler::parts(written);
        let file = HandlerFile::read(path, beside)?;
        let known = objects.iter().find(|known| known.path() == file.path());
        let file = match known {
            Some(known) => known.clone(),
            None => {
                let file = Arc::new(file);
                objects.push(file.clone());
                file
            }
        };
        Ok(Self::Of(file, program.map(str::to_owned)))
    }

    /// The choice for a hook that is there already.
    pub(crate) fn there(self) -> Self {
        match self {
            Self::Of(file, wanted) => Self::There(file, wanted),
            other => other,
        }
    }

    /// Whether a hook that is there, attached so, can call it.
    pub(crate) fn fits(&self, mechanism: &Mechanism) -> bool {
        match self {
            Self::Of(file, wanted) | Self::There(file, wanted) => file.fits(wanted.as_deref(), mechanism),
            Self::Known(..) => true,
        }
    }

    /// Says in a checked handler which program it calls under a strategy.
    fn bind(
        &self,
        handler: &mut CheckedProbe,
        probe: &Probe,
        strategy: &Strategy,
        events: &[Instance],
    ) -> Result<(), Diagnostic> {
        let span = probe.object.as_ref().map_or(probe.span, |object| object.span);
        if handler.pair.is_some() {
            let why = "an object cannot handle an event that is told by what came before it";
            return Err(
                Diagnostic::error(span, why).hint("let it handle the function's entry or return instead")
            );
        }
        let (path, name) = match self {
            Self::Known(path, program) => (path.clone(), program.clone()),
            Self::Of(file, wanted) | Self::There(file, wanted) => {
                let is_there = matches!(self, Self::There(..));
                let found = file.program(wanted.as_deref(), (&strategy.mechanism, is_there), events);
                (
                    file.path().to_owned(),
                    found.map_err(|why| Diagnostic::error(span, why))?,
                )
            }
        };
        for statement in &mut handler.body {
            if let StatementKind::Act(Action::Call { object, program }) = &mut statement.kind {
                (*object, *program) = (path.clone(), name.clone());
            }
        }
        Ok(())
    }
}

/// A handler that does not hold for an event.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The place among the candidates.
    pub(crate) candidate: usize,
    /// Why it is refused.
    pub(crate) why: Vec<Diagnostic>,
}

/// Result of checking the candidates for one event, or one set.
#[derive(Clone)]
pub(crate) struct Checked {
    /// Absent where none holds.
    pub(crate) hook: Option<Hook>,
    /// Hooks that it needs beside it: they are attached before it.
    pub(crate) companions: Vec<Hook>,
    /// Names of its events.
    pub(crate) names: Vec<String>,
    /// Remarks about those that hold, each with its candidate.
    pub(crate) remarks: Vec<(usize, Diagnostic)>,
    /// Handlers that do not hold, none of them required.
    pub(crate) refused: Vec<Refused>,
}

/// One hook for a set of events, or one for each of them where a handler asks for what differs.
pub(crate) fn check_set(
    mut resolved: Resolved,
    candidates: &[Candidate<'_>],
    globals: &mut Globals,
) -> Result<Vec<Checked>, Refused> {
    let members = std::mem::take(&mut resolved.members);
    match check_rows(resolved, candidates, globals) {
        Ok(checked) if checked.refused.is_empty() || members.is_empty() => Ok(vec![checked]),
        Err(refused) if members.is_empty() => Err(refused),
        _ => members
            .into_iter()
            .map(|one| check_rows(one, candidates, globals))
            .collect(),
    }
}

/// Checks handlers where the events' set is that of a hook which is there already: nothing can be set apart.
pub(crate) fn without_set(
    mut resolved: Resolved,
    candidates: &[Candidate<'_>],
    globals: &mut Globals,
) -> Result<Checked, Refused> {
    resolved.members.clear();
    check_rows(resolved, candidates, globals)
}

/// Result of checking one candidate with one strategy.
type Outcome = Result<(CheckedProbe, Vec<Diagnostic>), Vec<Diagnostic>>;

/// A strategy with the outcome for every candidate.
struct Tried {
    strategy: Strategy,
    outcomes: Vec<Outcome>,
}

/// The events of a program as the compiler knows them, where it serves many.
pub(super) fn members(context: &Context, events: &[Instance]) -> Arc<[Member]> {
    if matches!(context.number, EventNumber::Constant(_)) {
        return [].into();
    }
    let member = |event: &Instance| Member {
        name: event.name.clone(),
        function: event.symbol.clone(),
    };
    events.iter().map(member).collect()
}

impl Tried {
    fn new(
        mut strategy: Strategy,
        candidates: &[Candidate<'_>],
        events: &[Instance],
        globals: &mut Globals,
    ) -> Self {
        strategy.context.members = members(&strategy.context, events);
        let one = |candidate: &Candidate<'_>| {
            let guarded = strategy.guard.as_ref().map(|condition| {
                let mut probe = candidate.probe.clone();
                guard(&mut probe, condition, &candidate.source);
                probe
            });
            let probe = guarded.as_ref().unwrap_or(candidate.probe);
            match check(probe, &strategy.context, true, globals) {
                (Some(mut handler), remarks) => {
                    if let Some(wanted) = &candidate.object {
                        wanted
                            .bind(&mut handler, candidate.probe, &strategy, events)
                            .map_err(|why| vec![why])?;
                    }
                    let guarded = strategy.guard.is_some();
                    Ok((CheckedProbe { guarded, ..handler }, remarks))
                }
                (None, diagnostics) => Err(diagnostics),
            }
        };
        let outcomes = candidates.iter().map(one).collect();
        Self { strategy, outcomes }
    }

    fn holds(&self, candidate: usize) -> bool {
        self.outcomes.get(candidate).is_some_and(Result::is_ok)
    }

    fn remarks(&self, kept: &[usize]) -> usize {
        let count = |&candidate: &usize| match self.outcomes.get(candidate) {
            Some(Ok((_, remarks))) => remarks.len(),
            _ => 0,
        };
        kept.iter().map(count).sum()
    }
}

/// Checks all candidates under all strategies. Those are kept that hold together under the strategy where most do; then every strategy under which all of them hold.
fn check_rows(
    resolved: Resolved,
    candidates: &[Candidate<'_>],
    globals: &mut Globals,
) -> Result<Checked, Refused> {
    let names = resolved.instances.iter().map(|i| i.name.clone()).collect();
    let mut tried: Vec<Tried> = resolved
        .strategies
        .into_iter()
        .map(|strategy| Tried::new(strategy, candidates, &resolved.instances, globals))
        .collect();
    let score = |tried: &Tried| {
        let holds = |required| {
            (0..candidates.len())
                .filter(|&c| candidates[c].required == required && tried.holds(c))
                .count()
        };
        (holds(true), holds(false))
    };
    // The first of the best: `max_by_key` would take the last.
    let best = tried.iter().rev().max_by_key(|t| score(t));
    let kept: Vec<usize> = best.map_or_else(Vec::new, |best| {
        (0..candidates.len()).filter(|&c| best.holds(c)).collect()
    });
    let mut refused = Vec::new();
    for candidate in (0..candidates.len()).filter(|c| !kept.contains(c)) {
        let why = tried
            .iter()
            .rev()
            .find_map(|t| t.outcomes[candidate].as_ref().err());
        let why = Refused {
            candidate,
            why: why.cloned().unwrap_or_default(),
        };
        if candidates[candidate].required {
            return Err(why);
        }
        refused.push(why);
    }
    tried.retain(|t| kept.iter().all(|&c| t.holds(c)));
    // A strategy with more remarks than another cannot give all that was asked for (a field whose rule does not fit this kernel).
    let fewest = tried.iter().map(|t| t.remarks(&kept)).min().unwrap_or(0);
    tried.retain(|t| t.remarks(&kept) == fewest);
    let mut remarks = Vec::new();
    if let Some(first) = tried.first() {
        for &candidate in &kept {
            if let Ok((_, own)) = &first.outcomes[candidate] {
                remarks.extend(own.iter().map(|d| (candidate, d.clone())));
            }
        }
    }
    let strategies: Vec<PlannedStrategy> = tried.into_iter().map(|t| planned(t, &kept)).collect();
    let rows = kept.iter().enumerate().map(|(place, &candidate)| {
        let written = strategies
            .first()
            .map_or(&[][..], |strategy| &strategy.checked[place..=place]);
        PlannedHandler {
            source: candidates[candidate].source.clone(),
            span: candidates[candidate].probe.span,
            tables: candidates[candidate].tables.clone(),
            records: layouts(written).len() as u16,
        }
    });
    let rows: Vec<PlannedHandler> = rows.collect();
    let optional = kept.iter().all(|&c| !candidates[c].required);
    let mut hook =
        (!rows.is_empty()).then(|| Hook::new(resolved.kind, resolved.instances, rows, strategies, optional));
    let companions = hook.as_mut().map_or_else(Vec::new, entry_exit::companions);
    Ok(Checked {
        hook,
        companions,
        names,
        remarks,
        refused,
    })
}

fn planned(tried: Tried, kept: &[usize]) -> PlannedStrategy {
    let Strategy {
        mechanism,
        context,
        companions,
        ..
    } = tried.strategy;
    let handlers = tried.outcomes.into_iter().enumerate();
    let handlers = handlers.filter(|(candidate, _)| kept.contains(candidate));
    PlannedStrategy {
        mechanism,
        context,
        checked: handlers
            .filter_map(|(_, outcome)| Some(outcome.ok()?.0))
            .collect(),
        companions,
    }
}
