//! Several events of one text: what names one twice is left out, and many single functions become one set.

use crate::catalog::jprobe;
use crate::catalog::{Attachment, Catalog, Instance, Resolved, Via};
use crate::error::Result;
use kestrel_compiler::lang::ast::Span;
use std::collections::HashMap;

/// Leaves out what names an event again, by another name of it: an event meets a handler once. A second jprobe is a matter of its own.
pub(super) fn each_once(all: Vec<(Span, Resolved)>, mut remark: impl FnMut(Span, String)) -> Vec<Resolved> {
    let mut known: HashMap<(&'static str, String), String> = HashMap::new();
    let mut left = Vec::new();
    for (span, resolved) in all {
        let key = |instance: &Instance| (resolved.kind, instance.identity().to_owned());
        if let [one] = resolved.instances.as_slice()
            && resolved.kind != jprobe::NAME
            && let Some(other) = known.get(&key(one)).filter(|other| **other != one.name)
        {
            remark(
                span,
                format!("{} is another name of {other}: they are one event", one.name),
            );
            continue;
        }
        for instance in &resolved.instances {
            known
                .entry(key(instance))
                .or_insert_with(|| instance.name.clone());
        }
        left.push(resolved);
    }
    left
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
    let is_single = |r: &Resolved| {
        r.instances.len() == 1
            && r.ways
                .iter()
                .all(|way| matches!(way.attachment, Attachment::Functions { maxactive: None, .. }))
    };
    let (singles, mut rest): (Vec<Resolved>, Vec<Resolved>) = all.into_iter().partition(is_single);
    let mut kinds: Vec<(&'static str, Vec<Resolved>)> = Vec::new();
    for single in singles {
        match kinds.iter_mut().find(|(kind, _)| *kind == single.kind) {
            Some((_, same)) if same.iter().any(|s| s.instances == single.instances) => {}
            Some((_, same)) => same.push(single),
            None => kinds.push((single.kind, vec![single])),
        }
    }
    for (kind, singles) in kinds {
        let names: Vec<String> = singles.iter().map(|s| s.instances[0].name.clone()).collect();
        let set = if singles.len() < least {
            None
        } else {
            catalog.set(kind, &names, via)?
        };
        match set {
            Some(set) => rest.push(Resolved {
                apart: singles,
                ..set
            }),
            None => rest.extend(singles),
        }
    }
    Ok(rest)
}
