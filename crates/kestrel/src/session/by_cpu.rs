//! The handlers' maps of a session, told apart by CPU.

use super::attached::Session;
use kestrel_catalog::Result;
use kestrel_trace::aggregate::read::Snapshot;

impl Session {
    /// Contribution of each CPU to the handlers' maps, by the CPU's number.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn map_snapshots_by_cpu(&self) -> Result<Vec<(u32, Snapshot)>> {
        self.resources.maps.read_by_cpu(&self.numbers)
    }
}
