//! Threads of a recording, numbered in the order of their first record.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Threads, each with its process.
#[derive(Debug, Default)]
pub(super) struct Threads {
    indexes: HashMap<u32, u32, RandomState>,
    threads: Vec<(u32, u32)>,
}

impl Threads {
    /// The index of a thread, added where it is new. A `pid` equal to `tid` may mean that the process is not known yet, so a later call replaces it.
    pub(super) fn index_of(&mut self, tid: u32, pid: u32) -> u32 {
        if let Some(index) = self.indexes.get(&tid) {
            let known = &mut self.threads[*index as usize].1;
            if *known == tid {
                *known = pid;
            }
            return *index;
        }
        let index = self.threads.len() as u32;
        self.threads.push((tid, pid));
        self.indexes.insert(tid, index);
        index
    }

    /// Number and process, by index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.threads.iter().copied()
    }
}
