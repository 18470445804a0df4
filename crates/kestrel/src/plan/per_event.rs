//! The handlers of a set's events each checked for its own event: for a program that distinguishes the events before any of their handlers looks
//! at them.

use super::check_handlers::{Candidate, Checked, without_set};
use super::hook::{Hook, PlannedHandler, PlannedStrategy};
use kestrel_catalog::attach::Formatted;
use kestrel_catalog::catalog::{Resolved, Strategy};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::tree::CheckedProbe;

/// A hook at a set of events, put together handler by handler.
pub(crate) struct PerEventBuilder<'s> {
    set: &'s Resolved,
    rows: Vec<PlannedHandler>,
    /// For each strategy of the set, one per row.
    handlers: Vec<Vec<CheckedProbe>>,
}

impl<'s> PerEventBuilder<'s> {
    /// Without a handler yet.
    pub(crate) fn new(set: &'s Resolved) -> Self {
        Self {
            set,
            rows: Vec::new(),
            handlers: vec![Vec::new(); set.strategies.len()],
        }
    }

    /// Handlers that are in it.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The handler with what all events of the set have; `None` where it needs more.
    pub(crate) fn of_set(&self, candidate: &Candidate<'_>, globals: &mut Globals) -> Option<Hook> {
        let mut trial = globals.clone();
        let checked = without_set(self.set.clone(), std::slice::from_ref(candidate), &mut trial).ok()?;
        let hook = self.whole(checked)?;
        *globals = trial;
        Some(hook)
    }

    /// The handler with what this one of its events has.
    pub(crate) fn of_one(
        &self,
        mut one: Resolved,
        candidate: &Candidate<'_>,
        globals: &mut Globals,
    ) -> Option<Hook> {
        let strategies = self
            .set
            .strategies
            .iter()
            .map(|strategy| shared_strategy(strategy, &one.strategies));
        one.strategies = strategies.collect::<Option<_>>()?;
        self.whole(without_set(one, std::slice::from_ref(candidate), globals).ok()?)
    }

    /// A hook that can be taken by all the strategies of the set, and needs no other beside it: a strategy that one of them cannot take is none for the
    /// program of all.
    fn whole(&self, checked: Checked) -> Option<Hook> {
        let fits = checked.refused.is_empty() && checked.companions.is_empty();
        checked
            .hook
            .filter(|hook| fits && hook.strategies.len() == self.set.strategies.len())
    }

    /// The row from `first` on that does under every strategy what this hook's handler does.
    pub(crate) fn same(&self, first: usize, hook: &Hook) -> Option<usize> {
        let same = |row: &usize| {
            let mut strategies = self.handlers.iter().zip(&hook.strategies);
            strategies.all(|(known, strategy)| known.get(*row) == strategy.checked.first())
        };
        (first..self.rows.len()).find(same)
    }

    /// Puts a hook's handler behind the others.
    pub(crate) fn add(&mut self, hook: Hook) {
        for (handlers, strategy) in self.handlers.iter_mut().zip(hook.strategies) {
            handlers.extend(strategy.checked);
        }
        self.rows.extend(hook.handlers);
    }

    /// The hook of all of them.
    pub(crate) fn into_hook(self, optional: bool) -> Hook {
        let strategies = self.set.strategies.iter().zip(self.handlers);
        let strategies = strategies.map(|(strategy, handlers)| PlannedStrategy {
            mechanism: strategy.mechanism.clone(),
            context: strategy.context.clone(),
            checked: handlers,
            companions: None,
        });
        Hook::new(
            self.set.kind,
            self.set.instances.clone(),
            self.rows,
            strategies.collect(),
            optional,
        )
    }
}

/// The strategy to see one event that reads what a strategy to see its set reads; distinguished as the set's events are, so that its own number need not be
/// asked again.
fn shared_strategy(set: &Strategy, strategies: &[Strategy]) -> Option<Strategy> {
    let same = |strategy: &&Strategy| {
        strategy.context.program == set.context.program
            && strategy.context.direct_loads == set.context.direct_loads
            && (strategy.mechanism == set.mechanism || set.mechanism.formatted() == Formatted::Alike)
    };
    let mut strategy = strategies.iter().find(same)?.clone();
    strategy.context.selector.clone_from(&set.context.selector);
    strategy.guard.clone_from(&set.guard);
    Some(strategy)
}
