//! The maps of a session's handlers, with each CPU's values apart.

use crate::session::attached::Session;
use kestrel_catalog::Result;
use kestrel_trace::aggregate::read::Snapshot;

impl Session {
    /// Contents of the handlers' maps by CPU: what each CPU has added, with its number.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(crate) fn map_snapshots_by_cpu(&self) -> Result<Vec<(u32, Snapshot)>> {
        self.resources.maps.read_by_cpu(&self.event_names)
    }
}
