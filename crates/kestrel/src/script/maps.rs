//! The maps of a program that runs, whatever runs it: a kernel, or we over a recording.

use crate::session::Session;
use kestrel_catalog::Result;
use kestrel_trace::aggregate::read::Snapshot;

/// Access to the maps of a program.
pub trait ProgramMaps {
    /// Contents of a map as of a generation.
    ///
    /// # Errors
    /// When it cannot be read.
    fn as_of(&mut self, name: &str, generation: u64) -> Result<Option<Snapshot>>;

    /// Removes what a map held before a generation; where that is `zeroed`, its keys are kept with the value zero.
    ///
    /// # Errors
    /// When it cannot be changed.
    fn sweep(&mut self, name: &str, generation: u64, zeroed: bool) -> Result<()>;

    /// Contents of all maps now.
    ///
    /// # Errors
    /// When one cannot be read.
    fn all(&mut self) -> Result<Vec<Snapshot>>;
}

impl ProgramMaps for &Session {
    fn as_of(&mut self, name: &str, generation: u64) -> Result<Option<Snapshot>> {
        self.map_generation(name, generation, None)
    }

    fn sweep(&mut self, name: &str, generation: u64, zeroed: bool) -> Result<()> {
        self.sweep_map(name, generation, zeroed)
    }

    fn all(&mut self) -> Result<Vec<Snapshot>> {
        self.map_snapshots()
    }
}
