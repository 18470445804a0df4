//! Several events of one text: what names one twice is left out, and many single functions become one set.

use kestrel_catalog::Result;
use kestrel_catalog::catalog::jprobe;
use kestrel_catalog::catalog::{Catalog, Instance, Resolved, Via};
use kestrel_compiler::lang::ast::Span;
use std::collections::{HashMap, HashSet};

/// An event, whatever it is called.
type Key = (&'static str, String);

fn key(kind: &'static str, instance: &Instance) -> Key {
    (kind, instance.identity().to_owned())
}

/// Leaves out what names an event again, by whatever name: an event meets a handler once. What is named by itself is seen by itself, with its own
/// types, and patterns have the rest. A second jprobe is a matter of its own.
pub(super) fn each_once(all: Vec<(Span, Resolved)>, mut remark: impl FnMut(Span, String)) -> Vec<Resolved> {
    let mut singles: HashMap<Key, usize> = HashMap::new();
    let mut left: Vec<(Span, Resolved)> = Vec::new();
    for (span, resolved) in all {
        let [one] = resolved.instances.as_slice() else {
            left.push((span, resolved));
            continue;
        };
        if resolved.kind == jprobe::NAME {
            left.push((span, resolved));
            continue;
        }
        let Some(&before) = singles.get(&key(resolved.kind, one)) else {
            singles.insert(key(resolved.kind, one), left.len());
            left.push((span, resolved));
            continue;
        };
        let known = &mut left[before].1;
        if let [other] = known.instances.as_slice()
            && other.name != one.name
        {
            remark(span, another(one, other));
        }
        // One hook follows as many calls as is asked for anywhere.
        if known.calls() < resolved.calls() {
            *known = resolved;
        }
    }
    let mut matched: HashSet<Key> = HashSet::new();
    let mut named: Vec<(usize, String)> = Vec::new();
    for (_, resolved) in &mut left {
        if resolved.instances.len() < 2 {
            continue;
        }
        let kind = resolved.kind;
        let taken = |instance: &Instance| {
            let key = key(kind, instance);
            singles.contains_key(&key) || matched.contains(&key)
        };
        for instance in &resolved.instances {
            if let Some(&single) = singles.get(&key(kind, instance)) {
                named.push((single, instance.name.clone()));
            }
        }
        resolved.instances.retain(|instance| !taken(instance));
        resolved.apart.retain(|one| !one.instances.iter().any(&taken));
        matched.extend(resolved.instances.iter().map(|instance| key(kind, instance)));
    }
    for (single, other) in named {
        let (span, known) = &left[single];
        if let [one] = known.instances.as_slice()
            && one.name != other
        {
            remark(*span, another(one, &Instance::named(other)));
        }
    }
    let left = left.into_iter().map(|(_, resolved)| resolved);
    left.filter(|resolved| !resolved.instances.is_empty()).collect()
}

fn another(one: &Instance, other: &Instance) -> String {
    format!(
        "{} is another name of {}: they are one event",
        one.name, other.name
    )
}

/// Functions named one by one are a set like those of a pattern: attached in one operation where the kernel can. So many named functions at
/// least whose default records have their parameters apart.
pub(super) const MANY: usize = 17;

/// Puts single functions of one kind together, where there are so many at least.
pub(super) fn together(
    all: Vec<Resolved>,
    least: usize,
    catalog: &Catalog,
    via: Via,
) -> Result<Vec<Resolved>> {
    let is_single = |r: &Resolved| r.instances.len() == 1 && r.ways.iter().all(|way| way.mechanism.joins());
    let (singles, mut rest): (Vec<Resolved>, Vec<Resolved>) = all.into_iter().partition(is_single);
    let mut sets: Vec<Vec<Resolved>> = Vec::new();
    for single in singles {
        let way = |r: &Resolved| r.ways.first().map(|way| way.mechanism.clone());
        let goes = |set: &&mut Vec<Resolved>| set[0].kind == single.kind && way(&set[0]) == way(&single);
        match sets.iter_mut().find(goes) {
            Some(same) if same.iter().any(|s| s.instances == single.instances) => {}
            Some(same) => same.push(single),
            None => sets.push(vec![single]),
        }
    }
    for singles in sets {
        let kind = singles[0].kind;
        let names: Vec<String> = singles.iter().map(|s| s.instances[0].name.clone()).collect();
        let set = if singles.len() < least {
            None
        } else {
            catalog.set(kind, &names, via)?
        };
        match set {
            Some(mut set) => {
                for (instance, single) in set.instances.iter_mut().zip(&singles) {
                    instance.identity.clone_from(&single.instances[0].identity);
                }
                rest.push(Resolved {
                    apart: singles,
                    ..set
                });
            }
            None => rest.extend(singles),
        }
    }
    Ok(rest)
}
