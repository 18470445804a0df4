//! The threads of a recording by place: the order in which they were met.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Threads, each with its process.
#[derive(Debug, Default)]
pub(super) struct Threads {
    places: HashMap<u32, u32, RandomState>,
    threads: Vec<(u32, u32)>,
}

impl Threads {
    /// The place of a thread. What its process is may be known later only: then that is its own number until then.
    pub(super) fn place(&mut self, tid: u32, pid: u32) -> u32 {
        if let Some(place) = self.places.get(&tid) {
            let known = &mut self.threads[*place as usize].1;
            if *known == tid {
                *known = pid;
            }
            return *place;
        }
        let place = self.threads.len() as u32;
        self.threads.push((tid, pid));
        self.places.insert(tid, place);
        place
    }

    /// Number and process, by place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.threads.iter().copied()
    }
}
