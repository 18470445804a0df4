//! Contents of the maps of a session's handlers and objects, and what its programs hand over.

use super::Session;
use crate::session::maps::Maps;
use kestrel_catalog::Result;
use kestrel_compiler::failures::Failure;
use kestrel_kernel::bpf::Map;
use kestrel_object::BpfMap;
use kestrel_trace::aggregate::read::Snapshot;

impl Session {
    /// Failures of helpers in the session's programs so far, where they are counted.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn failures(&self) -> Result<Vec<Failure>> {
        self.resources.maps.failures()
    }

    /// Whether programs unwind stacks by tables ([`Session::unwind_stacks_of`]).
    pub fn unwinds_stacks(&self) -> bool {
        self.resources.maps.unwinding().is_some()
    }

    /// Lets programs unwind the stacks of a process by the tables of what it has mapped now; gives how many of its mappings there was no room for. Does nothing where no program does so.
    ///
    /// # Errors
    /// When the process is gone, or the kernel refuses.
    pub fn unwind_stacks_of(&self, pid: u32) -> Result<usize> {
        match self.resources.maps.unwinding() {
            Some(unwinding) => unwinding.learn(pid, &self.resources.host),
            None => Ok(0),
        }
    }

    /// Says that the stacks of a process will be unwound as soon as its program begins: until then what is known of them is no reason for a warning.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn expect_stacks_of(&self, pid: u32) -> Result<()> {
        match self.resources.maps.unwinding() {
            Some(unwinding) => unwinding.expect(pid),
            None => Ok(()),
        }
    }

    /// Map through which programs hand packets over, where they do.
    pub fn packets(&self) -> Option<&Map> {
        self.resources.packets.as_ref()
    }

    /// Contents of the handlers' maps now.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn map_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.resources.maps.read(&self.event_names)
    }

    /// Contents of a handlers' map at a generation; see [`Maps::read_generation`].
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(crate) fn map_generation(
        &self,
        name: &str,
        generation: u64,
        value: Option<u64>,
    ) -> Result<Option<Snapshot>> {
        self.resources
            .maps
            .read_generation(name, generation, value, &self.event_names)
    }

    /// Removes what one of its handlers' maps held before a generation.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn sweep_map(&self, name: &str, generation: u64, zeroed: bool) -> Result<()> {
        self.resources.maps.sweep_map(name, generation, zeroed)
    }

    /// Gives the maps of the compiled objects that its handlers call, each with the path of its file.
    pub fn each_object_map(&self, show: &mut dyn FnMut(&str, &BpfMap)) {
        self.resources.objects.each_map(show);
    }

    /// Whether stacks of processes are among the keys of its handlers' maps.
    pub fn has_user_stacks_in_maps(&self) -> bool {
        self.resources.maps.have_user_stacks()
    }

    /// The handlers' maps, to be emptied.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.resources.maps
    }
}
