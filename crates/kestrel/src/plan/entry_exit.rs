//! Helper hooks at entries: they store what a handler at the return reads of the entry (`entry.args.NAME`), as the checker has found.

use super::hook::{Hook, PlannedHandler, PlannedStrategy};
use kestrel_catalog::catalog::kind::HelperHook;
use kestrel_compiler::check::tree::{CheckedPair, CheckedProbe, Statement};
use kestrel_compiler::context::Context;

/// The companions of a hook, where one of its handlers needs them. Its other ways go: what is kept is kept for the first.
pub(super) fn companions(hook: &mut Hook) -> Vec<Hook> {
    let Some(way) = hook.ways.first() else {
        return Vec::new();
    };
    let wanted = way.handlers.iter().any(|handler| handler.pair.is_some());
    let (Some(companions), Some(pair), true) = (way.companions.clone(), way.context.pair.clone(), wanted)
    else {
        return Vec::new();
    };
    hook.ways.truncate(1);
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
    let handlers = served.ways.first().map_or(&[][..], |way| &way.handlers);
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
    let way = PlannedStrategy {
        mechanism: companion.mechanism.clone(),
        context: context.clone(),
        handlers: handlers.iter().map(handler).collect(),
        companions: None,
    };
    Hook {
        companion: true,
        ..Hook::new(
            served.kind,
            companion.instances(&served.instances),
            served.rows.iter().map(row).collect(),
            vec![way],
            served.optional,
        )
    }
}
