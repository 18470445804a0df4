//! Events that meet the same handlers in all tables, put together: one hook where the kernel can see them at once.

use super::Planner;
use super::cells::{Cell, Cells};
use kestrel_catalog::Result;
use kestrel_catalog::attach::Mechanism;
use kestrel_catalog::catalog::Resolved;
use std::collections::HashMap;

/// Functions named one by one with the default record share a link from so many on; fewer have their parameters in the record, each its own.
const MANY: usize = 17;

/// Events that meet the same handlers in all tables, and can be seen together.
pub(in crate::plan) struct Group {
    pub(super) events: Resolved,
    /// Their cells, by table.
    pub(super) cells: Vec<Option<Cell>>,
}

impl Group {
    /// Mechanism of the best strategy.
    fn mechanism(&self) -> Option<&Mechanism> {
        self.events.strategies.first().map(|strategy| &strategy.mechanism)
    }
}

impl Planner<'_> {
    /// Events of the same handlers together, in the order of their first; those that are masked everywhere are left out.
    pub(in crate::plan) fn groups(&self, tables: &[Cells]) -> Result<Vec<Group>> {
        type Draft = (Option<usize>, Vec<usize>, Vec<Option<Cell>>);
        let mut drafts: Vec<Draft> = Vec::new();
        let mut places: HashMap<(usize, Vec<Option<usize>>), usize> = HashMap::new();
        for event in 0..self.events.len() {
            let cells: Vec<Option<Cell>> = tables
                .iter()
                .map(|table| table.get(event).copied().flatten())
                .collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let together = cells.iter().flatten().all(|cell| cell.in_set);
            let set = self.events.set_of(event).filter(|_| together);
            let next = drafts.len();
            let place = set.map_or(next, |set| *places.entry((set, handlers(&cells))).or_insert(next));
            if place == next {
                drafts.push((set, Vec::new(), cells));
            }
            drafts[place].1.push(event);
        }
        let resolved = drafts.into_iter().filter_map(|(set, events, cells)| {
            let events = match (set, events.as_slice()) {
                (_, &[one]) => self.events.one(one)?,
                (Some(set), several) => self.events.resolved_set(set, several),
                (None, _) => return None,
            };
            Some(Group { events, cells })
        });
        self.join(resolved.collect())
    }

    /// Single functions of the same handlers put together: attached in one operation where the kernel can. In a program, system calls, too: instead of a
    /// program for each of them one runs when any is made.
    fn join(&self, groups: Vec<Group>) -> Result<Vec<Group>> {
        let joins = |group: &Group| {
            let mut strategies = group.events.strategies.iter();
            let calls = self.missing_probes.is_some() && group.events.is_on_all_calls();
            group.events.instances.len() == 1
                && (calls || strategies.all(|strategy| strategy.mechanism.joins()))
        };
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for (place, group) in groups.iter().enumerate().filter(|(_, group)| joins(group)) {
            let same = |set: &&mut Vec<usize>| {
                let first = &groups[set[0]];
                first.events.kind == group.events.kind
                    && first.mechanism() == group.mechanism()
                    && handlers(&first.cells) == handlers(&group.cells)
            };
            match sets.iter_mut().find(same) {
                Some(set) => set.push(place),
                None => sets.push(vec![place]),
            }
        }
        // Each function by itself has its own types in the default record; below this number they are worth more than one link.
        sets.retain(|set| {
            let cells = groups[set[0]].cells.iter().flatten();
            let is_default = cells
                .map(|cell| &self.handlers[cell.handler])
                .any(|h| h.is_default);
            set.len() >= if is_default { MANY } else { 2 }
        });
        let mut groups: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
        for places in sets {
            let singles = places.iter().filter_map(|&place| groups[place].as_ref());
            let singles: Vec<Resolved> = singles.map(|group| group.events.clone()).collect();
            let names = singles.iter().map(|single| single.instances[0].name.clone());
            let names: Vec<String> = names.collect();
            let Some(mut set) = self.events.set_of_names(singles[0].kind, &names)? else {
                continue;
            };
            for (instance, single) in set.instances.iter_mut().zip(&singles) {
                instance.identity.clone_from(&single.instances[0].identity);
            }
            // Kept for handlers that turn out to need what differs between the functions.
            set.members = singles;
            for &place in &places[1..] {
                groups[place] = None;
            }
            if let Some(first) = &mut groups[places[0]] {
                first.events = set;
            }
        }
        Ok(groups.into_iter().flatten().collect())
    }
}

/// The handlers of an event, by table.
fn handlers(cells: &[Option<Cell>]) -> Vec<Option<usize>> {
    cells.iter().map(|cell| cell.map(|c| c.handler)).collect()
}
