//! The names of threads whose records come.

use kestrel::kernel::Host;
use kestrel::session::pinned::ThreadNames;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Shortest time between two lookups of a thread's name.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(10);

/// Names of threads, from the session's map of names (threads may exit before their records are shown) and from /proc.
pub(super) struct ThreadNameLookup {
    kept: ThreadNames,
    host: Host,
    /// Time of the last lookup per thread.
    looked_up: HashMap<u32, Instant>,
}

impl ThreadNameLookup {
    pub(super) fn new(kept: ThreadNames, host: &Host) -> Self {
        Self {
            kept,
            host: host.clone(),
            looked_up: HashMap::new(),
        }
    }

    /// Updates the name of a record's thread.
    pub(super) fn update(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let now = Instant::now();
        let looked_up = self.looked_up.get(&record.tid);
        if record.tid == 0 || looked_up.is_some_and(|looked_up| now - *looked_up < LOOKUP_INTERVAL) {
            return;
        }
        self.looked_up.insert(record.tid, now);
        if let Some(name) = self.kept.name(record.tid) {
            processes.insert(record.tid, name);
        } else if processes.name(record.tid, record.pid).is_none()
            && let Ok(name) = kestrel::kernel::procfs::comm_bytes(&self.host, record.tid)
        {
            processes.insert(record.tid, name);
        }
    }
}
