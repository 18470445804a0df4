//! Refuses a second jprobe on a function within a session, because a jprobe stands for the call of its function.

use super::hook::Hook;
use kestrel_catalog::Result;
use kestrel_catalog::catalog::jprobe::{NAME, second};
use kestrel_catalog::catalog::{Catalog, Instance};

/// Refuses hooks if one of them is a jprobe on a function for which there is a jprobe among the events `there`.
pub(crate) fn no_second<'e>(
    hooks: &[Hook],
    there: impl Iterator<Item = &'e str>,
    catalog: &Catalog,
) -> Result<()> {
    let jprobes = hooks.iter().filter(|hook| hook.kind == NAME);
    let new: Vec<&Instance> = jprobes.flat_map(|hook| &hook.instances).collect();
    if new.is_empty() {
        return Ok(());
    }
    let kind = format!("{NAME}:");
    for event in there.filter(|event| event.starts_with(&kind)) {
        let identity = catalog.canonical_name(event);
        if let Some(second) = new.iter().find(|instance| instance.identity() == identity) {
            return Err(self::second(second));
        }
    }
    Ok(())
}
