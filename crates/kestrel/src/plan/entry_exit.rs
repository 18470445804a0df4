//! Helper hooks at entries: they store what a handler at the return reads of the entry (`entry.args.NAME`), as the checker has found.

use super::hook::{Hook, PlannedHandler, PlannedStrategy};
use kestrel_catalog::catalog::kind::HelperHook;
use kestrel_compiler::check::tree::{CheckedPair, CheckedProbe, Statement};
use kestrel_compiler::context::Context;

/// The companions of a hook, where one of its handlers needs them. Its other strategies go: what is kept is kept for the first.
pub(super) fn companions(hook: &mut Hook) -> Vec<Hook> {
    let Some(strategy) = hook.strategies.first() else {
        return Vec::new();
    };
    let wanted = strategy.checked.iter().any(|handler| handler.pair.is_some());
    let (Some(companions), Some(pair), true) =
        (strategy.companions.clone(), strategy.context.pair.clone(), wanted)
    else {
        return Vec::new();
    };
    hook.strategies.truncate(1);
    let mut hooks = Vec::new();
    if let (Some(aborted), Some((context, _))) = (&companions.aborted, &pair.aborted) {
        hooks.push(companion(hook, aborted, context, |pair| &pair.aborted));
    }
    hooks.push(companion(hook, &companions.first, &pair.first, |pair| {
        &pair.first
    }));
    hooks
}

/// A hook with one row for each of those of the hook that it serves: in the same tables, for the same events.
fn companion(
    served: &Hook,
    companion: &HelperHook,
    context: &Context,
    body: fn(&CheckedPair) -> &Vec<Statement>,
) -> Hook {
    let handlers = served
        .strategies
        .first()
        .map_or(&[][..], |strategy| &strategy.checked);
    let handler = |handler: &CheckedProbe| CheckedProbe {
        predicate: None,
        body: handler.pair.as_ref().map(body).cloned().unwrap_or_default(),
        selector: None,
        variables: Vec::new(),
        pair: None,
        guarded: false,
    };
    let row = |row: &PlannedHandler| PlannedHandler {
        records: 0,
        ..row.clone()
    };
    let strategy = PlannedStrategy {
        mechanism: companion.mechanism.clone(),
        context: context.clone(),
        checked: handlers.iter().map(handler).collect(),
        companions: None,
    };
    Hook {
        companion: true,
        ..Hook::new(
            served.kind,
            companion.instances(&served.instances),
            served.handlers.iter().map(row).collect(),
            vec![strategy],
            served.optional,
        )
    }
}
