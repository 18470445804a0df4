//! Groups of records: records are grouped by keys and counted, with the values of an expression in each group.

use crate::background::Background;
use crate::distribution::{Distribution, FIGURES};
use crate::error::Result;
use crate::keys::Keys;
use crate::measure::Measure;
use crate::recent::Recent;
use crate::sort::{self, Row, Sort};
use foldhash::fast::RandomState;
use kestrel_trace::record::Record;
use serde_json::Value as Json;
use std::collections::HashMap;

/// Groups under construction; they take memory by their number, not by that of the records.
#[derive(Clone, Debug)]
pub struct Groups {
    keys: Keys,
    measure: Option<Measure>,
    table: Table,
    recent: Recent,
    without: u64,
}

/// Groups, and their places by keys.
#[derive(Clone, Debug, Default)]
struct Table {
    groups: Vec<Group>,
    /// The places of the groups, by their keys as bytes.
    places: HashMap<Vec<u8>, usize, RandomState>,
    /// The last record's.
    identity: Vec<u8>,
}

/// Records that are alike in all keys.
#[derive(Clone, Debug)]
pub struct Group {
    /// The keys' values as text.
    pub shown: Vec<String>,
    /// Keys as in JSON.
    pub keys: Vec<Json>,
    /// Number of records.
    pub count: u64,
    /// The values of the measure, where its fields are there.
    pub values: Distribution,
}

/// Groups in the order in which they are shown.
#[derive(Clone, Debug)]
pub struct Grouped {
    /// The keys as they were written.
    pub names: Vec<String>,
    /// The measure as it was written.
    pub measure: Option<String>,
    /// The groups, in order.
    pub groups: Vec<Group>,
    /// Groups beyond the limit, and the records in them.
    pub others: (u64, u64),
    /// Records of events that have not all fields of the keys.
    pub without: u64,
}

impl Groups {
    /// Groups by `keys`; `measure` is what is looked at in each.
    pub fn new(keys: Keys, measure: Option<Measure>) -> Self {
        Self {
            keys,
            measure,
            table: Table::default(),
            recent: Recent::default(),
            without: 0,
        }
    }

    /// Adds a record to its group.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>, background: &Background) {
        let (keys, table) = (&self.keys, &mut self.table);
        let place = match keys.are_thread_constant(record) {
            // Such keys are there at this event, so there is a group.
            true => self.recent.place(0, record, background, || {
                table.place(keys, record, background).unwrap_or(usize::MAX)
            }),
            false => table.place(keys, record, background).unwrap_or(usize::MAX),
        };
        let Some(group) = self.table.groups.get_mut(place) else {
            self.without += 1;
            return;
        };
        group.count += 1;
        if let Some(measure) = &self.measure
            && let Some(value) = measure.value(record, background)
        {
            group.values.add(value);
        }
    }

    /// The answer: the first `limit` groups in an order, the most frequent first where none is asked for.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn finish(self, order: Option<&Sort>, limit: Option<usize>) -> Result<Grouped> {
        let mut groups = self.table.groups;
        let figures: Vec<&str> = match self.measure {
            None => vec!["count"],
            Some(_) => FIGURES.map(|(name, _)| name).to_vec(),
        };
        sort::sort(&mut groups, order, self.keys.names(), &figures, "count")?;
        let others = groups.split_off(limit.unwrap_or(usize::MAX).min(groups.len()));
        Ok(Grouped {
            names: self.keys.names().to_vec(),
            measure: self.measure.map(|measure| measure.text().to_owned()),
            groups,
            others: (others.len() as u64, others.iter().map(|group| group.count).sum()),
            without: self.without,
        })
    }
}

impl Table {
    /// The place of a record's group; none where the event lacks a field of the keys.
    fn place(&mut self, keys: &Keys, record: &Record<'_>, background: &Background) -> Option<usize> {
        self.identity.clear();
        if !keys.group_key(record, background, &mut self.identity) {
            return None;
        }
        if let Some(place) = self.places.get(&self.identity) {
            return Some(*place);
        }
        self.groups.push(Group {
            shown: keys.shown(record, background),
            keys: keys.json(record, background),
            count: 0,
            values: Distribution::default(),
        });
        let place = self.groups.len() - 1;
        self.places.insert(self.identity.clone(), place);
        Some(place)
    }
}

impl Row for Group {
    fn keys(&self) -> &[Json] {
        &self.keys
    }

    fn figure(&self, name: &str) -> Option<i128> {
        match name {
            "count" => Some(self.count.into()),
            _ if self.values.count() == 0 => None,
            name => self.values.figure(name),
        }
    }
}
