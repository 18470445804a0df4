//! Tracepoints whose entries are alike (those of one `DECLARE_EVENT_CLASS`, for instance): one program serves them all, and each is distinguished
//! apart by the cookie of its perf link. Only those that are read from their formatted entries: what is read raw has a program each, because a raw program
//! that is on its way keeps the kernel from running it for another event.

use super::super::kind::{Instance, Resolved, Strategy, Via};
use super::super::lookup::Catalog;
use super::resolve::resolve_one;
use crate::attach::{self, Formatted, Mechanism};
use crate::error::Result;
use kestrel_compiler::context::{Context, EventField, EventNumber};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Groups the tracepoints with equal entries; the others are left as they are.
pub(super) fn together(singles: Vec<Resolved>) -> Vec<Resolved> {
    let mut groups: Vec<Vec<Resolved>> = Vec::new();
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for single in singles {
        let next = groups.len();
        let place = fields(&single).map_or(next, |mine| {
            let near = places.entry(shape(mine)).or_default();
            let known = near
                .iter()
                .copied()
                .find(|&place| fields(&groups[place][0]) == Some(mine));
            known.unwrap_or_else(|| {
                near.push(next);
                next
            })
        });
        match groups.get_mut(place) {
            Some(group) => group.push(single),
            None => groups.push(vec![single]),
        }
    }
    let mut all = Vec::new();
    for mut group in groups {
        match (group.len(), group.pop()) {
            (1, Some(single)) => all.push(single),
            (_, Some(last)) => {
                group.push(last);
                all.extend(set(group));
            }
            (_, None) => {}
        }
    }
    all
}

/// Exactly these as a set, in this order, where they are alike.
pub(super) fn set_of(catalog: &Catalog, names: &[String], via: Via) -> Result<Option<Resolved>> {
    let singles: Vec<Resolved> = names
        .iter()
        .map(|name| resolve_one(catalog, name, via))
        .collect::<Result<_>>()?;
    let mut all = together(singles);
    Ok(match all.len() {
        1 => all.pop().filter(|set| set.instances.len() == names.len()),
        _ => None,
    })
}

/// The fields of an event that can be one of a set: it is read from its formatted entry alone.
fn fields(single: &Resolved) -> Option<&[EventField]> {
    let [strategy] = single.strategies.as_slice() else {
        return None;
    };
    let classic = strategy.mechanism.formatted() == Formatted::One;
    (classic && strategy.context.features.attach_cookie).then_some(&strategy.context.fields)
}

/// Much the same for the same fields in the same places; what it leaves out is compared later.
fn shape(fields: &[EventField]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in fields {
        field.name.hash(&mut hasher);
        format!("{:?}", field.source).hash(&mut hasher);
    }
    hasher.finish()
}

/// Name of the family by which a set is known: the same for any of its events, and another for any other set.
pub fn family(context: &Context) -> String {
    let types: Vec<_> = context.fields.iter().map(|f| (&f.ty, &f.source)).collect();
    let mut hasher = DefaultHasher::new();
    format!("{types:?}").hash(&mut hasher);
    format!("{} ({:x})", context.name, hasher.finish())
}

/// Several that are alike, as one.
fn set(members: Vec<Resolved>) -> Option<Resolved> {
    let first = members.first()?;
    let mut context = first.strategies.first()?.context.clone();
    let names: Vec<&str> = context.fields.iter().map(|f| f.name.as_str()).collect();
    context.name = format!("tracepoints with {}", names.join(", "));
    context.number = EventNumber::Cookie { first: 0, stride: 1 };
    let strategy = Strategy::new(Mechanism::Tracepoints(attach::Tracepoints), context);
    let instances = members.iter().flat_map(|one| one.instances.iter());
    Some(Resolved {
        kind: first.kind,
        instances: instances.cloned().collect::<Vec<Instance>>(),
        strategies: vec![strategy],
        members,
    })
}
