//! Types of traced programs by debug information, added to events where a handler's text needs them; and types that a script defines, which take the place of
//! an event's own.

use kestrel_bpf::btf::Btf;
use kestrel_catalog::catalog::{Catalog, Resolved, TypesWanted};
use kestrel_compiler::builtin;
use kestrel_compiler::definition::overlay;
use kestrel_compiler::lang::ast::{Definition, ExprKind, Probe, TypeSuffix};
use kestrel_compiler::lang::is_type_word;
use kestrel_compiler::lang::walk::Node;
use kestrel_trace::event_kind::{self, SeenBy};
use std::sync::Arc;

/// Words that stand for values whose types come from debug information.
const OF_TYPES: &[&str] = &["args", "retval", "entry"];

/// Whether a handler needs debug information: it reads `args` of its event, or has a name that the traced binary may define: of a type or an enumerator.
fn names_types(probe: &Probe) -> bool {
    probe.any(&|node| match node {
        Node::Expr(expr) => {
            matches!(&expr.kind, ExprKind::Identifier(word)
                if OF_TYPES.contains(&word.as_str()) || !builtin::is_known(word))
        }
        Node::Type(ty) => {
            ty.tag.is_some()
                || ty.suffixes.contains(&TypeSuffix::Pointer)
                || !ty.name.is_empty() && !is_type_word(&ty.name)
        }
        Node::Loop => false,
    })
}

/// Adds types from debug information to the events of which a handler may need them. Only those, because reading debug information takes time.
pub(crate) fn add<'p>(
    catalog: &Catalog,
    mut handlers: impl Iterator<Item = &'p Probe>,
    events: &mut Resolved,
) {
    let wanted = match handlers.any(names_types) {
        true => TypesWanted::Always,
        false => TypesWanted::IfKnown,
    };
    catalog.add_types(wanted, events);
}

/// Gives the events that have no types of their own (`end`, `interval`, `profile`) those of the traced program: their handlers read maps that its events fill.
pub(super) fn share(catalog: &Catalog, events: &mut Resolved) {
    let seen_by = event_kind::find(events.kind).map(|kind| kind.seen_by);
    if !matches!(seen_by, Some(SeenBy::Session | SeenBy::PerfEvent)) {
        return;
    }
    let Some(types) = catalog.executables().shared_types() else {
        return;
    };
    let members = events.members.iter_mut().flat_map(|one| &mut one.strategies);
    for strategy in events.strategies.iter_mut().chain(members) {
        strategy.context.types = Some(types.clone());
    }
}

/// Overlays the types of events with those that a program defines: the kernel's, for which the result is `over_kernel`, or the traced program's.
pub(super) fn overlay_definitions(
    catalog: &Catalog,
    definitions: &[Definition],
    over_kernel: &Arc<Btf>,
    events: &mut Resolved,
) {
    let kernel = catalog.types().ok();
    let known = |name: &str| kernel.as_ref()?.enumerator(name).map(|found| found.value);
    // The events of a set have the same.
    let mut last: Option<(Arc<Btf>, Arc<Btf>)> = None;
    let members = events.members.iter_mut().flat_map(|one| &mut one.strategies);
    for strategy in events.strategies.iter_mut().chain(members) {
        let own = strategy.context.types.take();
        let own = own.filter(|own| kernel.as_ref().is_none_or(|kernel| !Arc::ptr_eq(own, kernel)));
        let Some(own) = own else {
            strategy.context.types = Some(over_kernel.clone());
            continue;
        };
        let over = match &last {
            Some((of, over)) if Arc::ptr_eq(of, &own) => Some(over.clone()),
            _ => overlay(definitions, Some(&own), &known).0,
        };
        last = over.clone().map(|over| (own, over));
        strategy.context.types = over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_probes;

    #[test]
    fn probes_that_ask_for_types_are_distinguished_from_others() {
        for text in [
            "uprobe:a:f { print(args.x) }",
            "uretprobe:a:f { print(retval->x) }",
            "uprobe:a:f { print(((struct x *)arg0)->y) }",
            "uprobe:a:f { print(*(name_t *)arg0) }",
            "uprobe:a:f { print(arg1 == BUSY) }",
            "uprobe:a:f { print(offsetof(pt_t, y)) }",
        ] {
            assert!(names_types(&parse_probes(text).0[0]), "{text}");
        }
        for text in [
            "uprobe:a:f { @[str(arg0)] = count() }",
            "uprobe:a:f",
            "uprobe:a:structure { print(1 * 2) }",
            "uprobe:a:f { print((uint8)arg0 + (unsigned int)pid + ncpus) }",
            // Remarks are no part of it.
            "uprobe:a:f { print(arg0) /* struct x *args (*) */ }",
        ] {
            assert!(!names_types(&parse_probes(text).0[0]), "{text}");
        }
    }
}
