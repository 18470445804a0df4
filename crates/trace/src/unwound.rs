//! Frames that were found in copies of processes' stacks, by record: each list once, kept beside the streams, so that a trace is read where neither
//! the binaries nor an unwinder are; how frames are found is not known here.

use crate::error::{Error, Result};
use crate::value::Frames;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A record with a copied stack: its CPU, its time (ns), its thread. Records that have all three in common were made while one thread stood
/// still, so their stacks are one.
pub type Key = (u32, u64, u32);

/// The frames of all records of a trace that hold copies of stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwound {
    lists: Vec<List>,
    numbers: HashMap<List, u32>,
    records: HashMap<Key, u32>,
}

/// A list of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct List {
    /// Addresses, innermost first, of 8 bytes each.
    bytes: Box<[u8]>,
    truncated: bool,
}

/// The unwound frames as they are written to the file.
#[derive(Default, Serialize, Deserialize)]
struct File {
    stacks: Vec<Stack>,
    /// CPU, time, thread, index of the stack.
    records: Vec<(u32, u64, u32, u32)>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stack {
    frames: Vec<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl List {
    fn new(frames: &[u64], truncated: bool) -> Self {
        let bytes = frames.iter().flat_map(|address| address.to_le_bytes());
        Self {
            bytes: bytes.collect(),
            truncated,
        }
    }

    fn addresses(&self) -> impl Iterator<Item = u64> {
        let (frames, _) = self.bytes.as_chunks::<8>();
        frames.iter().map(|frame| u64::from_le_bytes(*frame))
    }
}

impl Unwound {
    /// The file within a trace's side folder: JSON.
    pub const FILE: &'static str = "unwound_stacks";

    /// Whether it has no record's frames.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Enters the frames of a record, innermost first; `truncated` where the copy of the stack ended before they did.
    pub fn insert(&mut self, key: Key, frames: &[u64], truncated: bool) {
        self.enter(key, List::new(frames, truncated));
    }

    /// Takes the frames of another recording's records, which lie so much later here.
    pub(crate) fn extend(&mut self, others: &Self, later_ns: u64) {
        for (&(cpu, time, tid), &number) in &others.records {
            if let Some(list) = others.lists.get(number as usize) {
                self.enter((cpu, time.saturating_add(later_ns), tid), list.clone());
            }
        }
    }

    fn enter(&mut self, key: Key, list: List) {
        let next = self.lists.len() as u32;
        let number = *self.numbers.entry(list).or_insert_with_key(|list| {
            self.lists.push(list.clone());
            next
        });
        self.records.insert(key, number);
    }

    /// The frames of a record.
    pub fn get(&self, key: Key) -> Option<Frames<'_>> {
        let list = self.lists.get(*self.records.get(&key)? as usize)?;
        Some(Frames::unwound(&list.bytes, list.truncated))
    }

    /// Records whose copy of the stack ended before their frames did.
    pub fn truncated(&self) -> u64 {
        let lists = self.records.values();
        let truncated =
            lists.filter(|number| self.lists.get(**number as usize).is_some_and(|it| it.truncated));
        truncated.count() as u64
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let stack = |list: &List| Stack {
            frames: list.addresses().collect(),
            truncated: list.truncated,
        };
        let mut records: Vec<_> = self
            .records
            .iter()
            .map(|(&(cpu, time, tid), &number)| (cpu, time, tid, number))
            .collect();
        records.sort_unstable_by_key(|&(cpu, time, tid, _)| (time, cpu, tid));
        let file = File {
            stacks: self.lists.iter().map(stack).collect(),
            records,
        };
        // A struct of numbers cannot fail to serialise.
        serde_json::to_string(&file).unwrap_or_default() + "\n"
    }

    /// Reads what `to_text` wrote.
    ///
    /// # Errors
    /// [`Error::Side`] where it is something else.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = serde_json::from_str(text).map_err(|error| Error::Side {
            what: "the trace's unwound stacks".into(),
            why: error.to_string(),
        })?;
        let mut unwound = Self::default();
        for (cpu, time, tid, number) in file.records {
            // A file of others may name stacks that it does not have.
            if let Some(stack) = file.stacks.get(number as usize) {
                unwound.enter((cpu, time, tid), List::new(&stack.frames, stack.truncated));
            }
        }
        Ok(unwound)
    }
}
