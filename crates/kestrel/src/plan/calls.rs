//! Entries and returns of the same functions in one program: where the kernel can, both are one program there, too, with one link. A call whose entry was not seen has no return then.

use super::hook::Hook;
use super::together;
use kestrel_catalog::attach::CallEnd;
use kestrel_catalog::catalog::{Resolved, Strategy};
use kestrel_compiler::lang::ast::{ExprKind, Probe};
use kestrel_compiler::lang::walk::Node;

/// For each probe the number that it has in common with the one at the other end of the same functions, if there is exactly one.
pub(super) fn pairs(probes: &[Probe]) -> Vec<Option<u32>> {
    let mut all = vec![None; probes.len()];
    let ends = |at_return| {
        let ends = probes.iter().enumerate();
        ends.filter_map(move |(place, probe)| Some((place, functions(probe, at_return)?)))
    };
    for (number, (entry, wanted)) in (0..).zip(ends(false)) {
        let mut returns = ends(true).filter(|(_, functions)| *functions == wanted);
        if let (Some((at_return, _)), None) = (returns.next(), returns.next())
            && together::handlers(&probes[at_return]) == 1
        {
            (all[entry], all[at_return]) = (Some(number), Some(number));
        }
    }
    all
}

/// The functions of a probe that names or matches nothing else, as written.
fn functions(probe: &Probe, at_return: bool) -> Option<&str> {
    let [spec] = probe.events.as_slice() else {
        return None;
    };
    let [kind, functions] = spec.parts.as_slice() else {
        return None;
    };
    let kind = kestrel_catalog::catalog::find_kind(&kind.text)?.name();
    let wanted = if at_return { "kretprobe" } else { "kprobe" };
    (kind == wanted && functions.offset.is_none() && probe.object.is_none() && !names_itself(probe))
        .then_some(functions.text.as_str())
}

/// Whether a probe asks for its name: bpftrace has a program for each end then, and counts two probes.
fn names_itself(probe: &Probe) -> bool {
    probe.any(&|node| {
        let Node::Expr(expr) = node else { return false };
        matches!(&expr.kind, ExprKind::Identifier(name) if name == PROBE)
    })
}

/// The word for the name of the event.
const PROBE: &str = "probe";

/// Adds the strategy of a program that sees both ends of a call, as the best one.
pub(super) fn add_strategy(events: &mut Resolved) {
    for one in events.members.iter_mut() {
        add_strategy(one);
    }
    // One function that ftrace does not list takes no such link.
    let unlisted = matches!(events.instances.as_slice(), [one] if one.identity.is_some());
    if unlisted {
        return;
    }
    if let Some(strategy) = events.strategies.first().and_then(Strategy::of_call) {
        events.strategies.insert(0, strategy);
    }
}

/// Joins the hooks at both ends of the same functions into one program; from those that have nothing to share it with that strategy is taken.
pub(super) fn join(hooks: &mut [Hook]) {
    let wanted: Vec<Option<u32>> = hooks.iter_mut().map(|hook| hook.entry_exit_id.take()).collect();
    for entry in 0..hooks.len() {
        let other = |at: &usize| {
            wanted[entry].is_some()
                && wanted[*at] == wanted[entry]
                && hooks[*at].entry_exit_id.is_none()
                && end(&hooks[entry]) == Some(CallEnd::Entry)
                && end(&hooks[*at]) == Some(CallEnd::Return)
                && symbols(&hooks[*at]).eq(symbols(&hooks[entry]))
        };
        if let Some(at_return) = (0..hooks.len()).find(other) {
            let call = Some(entry as u32);
            (hooks[entry].entry_exit_id, hooks[at_return].entry_exit_id) = (call, call);
        }
    }
    for hook in hooks.iter_mut().filter(|hook| hook.entry_exit_id.is_none()) {
        hook.strategies
            .retain(|strategy| strategy.mechanism.call_end().is_none());
    }
}

/// The end of calls that the best strategy of a hook is in a program that sees both.
fn end(hook: &Hook) -> Option<CallEnd> {
    hook.strategies.first()?.mechanism.call_end()
}

fn symbols(hook: &Hook) -> impl Iterator<Item = Option<&str>> {
    hook.instances.iter().map(|instance| instance.symbol.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_probes;

    #[test]
    fn ends_of_the_same_functions_belong_together() {
        let pairs = |text: &str| pairs(&together::joined(text, &parse_probes(text).0));
        assert_eq!(
            pairs("kprobe:a* { } kretprobe:b { } k:b { } kr:a* { }"),
            [Some(0), Some(1), Some(1), Some(0)]
        );
        let unpaired = [
            "kprobe:a { } kprobe:b { } kretprobe:c { }",
            "kprobe:a, kretprobe:a { }",
            "kprobe:a+4 { } kretprobe:a { }",
            "kprobe:a { } kretprobe:a { } kretprobe:a { }",
            "kprobe:m:a { } kretprobe:m:a { }",
            "fentry:a { } fexit:a { }",
            "kprobe:a { @[probe] = count() } kretprobe:a { }",
        ];
        for text in unpaired {
            assert!(pairs(text).iter().all(Option::is_none), "{text}");
        }
        let two = "kprobe:a { } kprobe:a { } kretprobe:a { }";
        assert_eq!(
            pairs(two),
            [Some(0), Some(0)],
            "handlers of one event are one probe"
        );
    }
}
