//! Distribution of a field's values.

use super::count::{Count, largest_first};
use crate::print;
use crate::record::Record;
use crate::symbol::Symbols;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Counts by the value of the field of one name, in whichever events have it.
#[derive(Clone, Debug)]
pub struct Values {
    field: String,
    symbols: Symbols,
    counts: HashMap<Vec<u8>, u64, RandomState>,
    others: u64,
    text: Vec<u8>,
}

/// The most different values that are counted apart; bounds memory.
const DISTINCT: usize = 100_000;

impl Values {
    /// Counts by the value of `field`.
    pub fn new(field: impl Into<String>, symbols: Symbols) -> Self {
        Self {
            field: field.into(),
            symbols,
            counts: HashMap::default(),
            others: 0,
            text: Vec::new(),
        }
    }

    /// Takes a record; one without the field is passed over.
    pub fn add(&mut self, record: &Record<'_>) {
        let Some(value) = record.get(&self.field) else {
            return;
        };
        self.text.clear();
        print::value(value, &self.symbols, &mut self.text);
        if let Some(count) = self.counts.get_mut(&self.text) {
            *count += 1;
        } else if self.counts.len() < DISTINCT {
            self.counts.insert(self.text.clone(), 1);
        } else {
            self.others += 1;
        }
    }

    /// The answer, largest first; values beyond the limit are one row.
    pub fn finish(self) -> Vec<Count> {
        let row = |(name, count): (Vec<u8>, u64)| Count {
            name: String::from_utf8_lossy(&name).into_owned(),
            count,
        };
        let mut rows: Vec<Count> = self.counts.into_iter().map(row).collect();
        rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut rows = largest_first(rows);
        if self.others > 0 {
            rows.push(Count {
                name: "(other values)".into(),
                count: self.others,
            });
        }
        rows
    }
}
