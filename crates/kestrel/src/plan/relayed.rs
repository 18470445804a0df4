//! Handlers of a table that need a relay, a hook of their own beside one that the running session has on their event: objects whose programs that one
//! cannot call, because they are of another type.

use super::existing::ExistingHook;
use super::hook::Hook;
use super::planner::Planner;
use super::planner::cells::Cells;
use kestrel_catalog::Result;
use kestrel_catalog::attach::Mechanism;
use kestrel_hook::hook::relay::Relay;

/// The event of a hook whose handler in the table is an object that the hook cannot call, where another strategy to see the event serves it.
pub(super) fn misfit(cells: &Cells, hook: &ExistingHook, planner: &Planner<'_>) -> Option<usize> {
    // The values that distinguish the events of a set are the set's own.
    let [name] = hook.instances.as_slice() else {
        return None;
    };
    let event = planner.events.named(&hook.kind, name)?;
    let wanted = planner.object_of((*cells.get(event)?)?)?;
    if wanted.fits(&hook.mechanism) {
        return None;
    }
    let other = planner.events.one_called(&hook.kind, name)?;
    let serves = other
        .strategies
        .iter()
        .any(|strategy| wanted.fits(&strategy.mechanism));
    (serves || hook.is_relay).then_some(event)
}

/// Whether one of these hooks serves the event, and can call its handler.
pub(super) fn is_served(event: usize, others: &[ExistingHook], cells: &Cells, planner: &Planner<'_>) -> bool {
    others.iter().any(|hook| match hook.instances.as_slice() {
        [name] => {
            planner.events.named(&hook.kind, name) == Some(event) && misfit(cells, hook, planner).is_none()
        }
        _ => false,
    })
}

/// A relay for this event alone, to which the hook that is there passes its tables on; what the table gives the event is taken out of it.
pub(super) fn hook(
    planner: &mut Planner<'_>,
    cells: &mut Cells,
    event: usize,
    from: &ExistingHook,
    number: u32,
) -> Result<Vec<Hook>> {
    let mut alone: Cells = vec![None; cells.len()];
    alone[event] = cells[event].take();
    let groups = planner.groups(&[alone])?;
    let mut hooks = planner.hooks(groups, &[number]);
    for hook in hooks.iter_mut().filter(|hook| !hook.companion) {
        let first = hook.strategies.first();
        let channel = first.map_or(0, |strategy| channel(&strategy.mechanism));
        // All strategies of one type: the hook's number and its type are the place where words are passed on.
        hook.strategies
            .retain(|strategy| self::channel(&strategy.mechanism) == channel);
        hook.taken_from = Some(Relay {
            from: from.number,
            channel,
        });
    }
    Ok(hooks)
}

/// The kernel's number for the type of a mechanism's programs: those of one event are of different types.
fn channel(mechanism: &Mechanism) -> u32 {
    let kinds = mechanism.program_kinds(1).unwrap_or_default();
    kinds.first().map_or(0, |kind| kind.numbers().0.0)
}
