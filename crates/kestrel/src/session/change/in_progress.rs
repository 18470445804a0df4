//! Tables and named probes on their way into a session: its next state, and what is made for it.

use crate::session::Skipped;
use crate::session::attached::Session;
use crate::session::pinned::PinnedSession;
use crate::session::state::State;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::bpf::Program;
use kestrel_kernel::procfs::ClockPair;

/// The outcome of loading tables.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Remarks about the file's text.
    pub warnings: Vec<(String, Diagnostic)>,
    /// Events that this kernel does not let be attached, and only a pattern named.
    pub skipped: Vec<Skipped>,
    /// System calls that are seen at their tracepoint from now on, and no longer at their function: a call that was between the two at that moment is missed.
    pub moved: Vec<String>,
    /// Why the handlers that were there were not made anew for an object's hook beside theirs: an event that the kernel skips in that hook may be handled by two tables
    /// when they are switched meanwhile. The next change tries again.
    pub relays_pending: Option<Error>,
}

/// A load on its way: the session's next state, and what is made for it.
pub(in crate::session) struct LoadInProgress<'a> {
    pub(in crate::session) pinned: &'a PinnedSession,
    /// The session's maps, for programs to be bound to; hooks and classes that are added.
    pub(in crate::session) session: Session,
    pub(in crate::session) next: State,
    pub(in crate::session) loaded: Loaded,
    /// Programs that were put into slots.
    pub(in crate::session) programs: Vec<Program>,
    pub(in crate::session) now: u64,
    /// Number of kinds of record that the buffers must have room for, where they have less: then records are only counted, not made.
    pub(in crate::session) needed: u32,
}

impl<'a> LoadInProgress<'a> {
    pub(in crate::session) fn begin(pinned: &'a PinnedSession) -> Result<Self> {
        let mut session = pinned.session()?;
        let next = pinned.state.clone();
        // Records described by a killed command were never recorded.
        session
            .classes
            .retain(|class| u32::from(class.id.0) < next.next_record);
        Ok(Self {
            pinned,
            session,
            next,
            loaded: Loaded::default(),
            programs: Vec::new(),
            now: ClockPair::now().realtime,
            needed: 0,
        })
    }
}

/// The error for a session that has no room for these tables.
pub(in crate::session) fn full(names: &[String], why: &str) -> Error {
    Error::TableInUse {
        action: "load",
        table: names.join(", "),
        why: why.to_owned(),
    }
}
