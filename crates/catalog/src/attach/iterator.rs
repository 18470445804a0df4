//! Iterators: programs that the kernel runs once for each object of a kind, when the session asks for it by reading a file.

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections, type_id};
use super::links::Links;
use super::site::Sites;
use super::trampoline::bound;
use crate::error::Result;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{AttachType, IteratorScope, Link, Program, ProgramKind, ProgramType};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A walk of the kernel's; the id is that of its function, the process the one whose threads alone are walked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Iterator {
    pub name: String,
    #[serde(with = "type_id")]
    pub id: TypeId,
    pub process: Option<u32>,
    /// Where it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<PathBuf>,
}

impl Attach for Iterator {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::Other(
            ProgramType::TRACING,
            AttachType::TRACE_ITER,
            self.id,
        )])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        2
    }

    fn profile(&self) -> Profile {
        Profile {
            sections: Sections {
                hooks: &[Hook::Iter],
                written: "SEC(\"iter\")",
                loadable: None,
            },
            letter: 't',
            // Only who reads the file runs it.
            preempted: Preempted::Never,
            guarded: false,
            maxactive: None,
            joins: false,
            formatted: Formatted::No,
            call_end: None,
            relays: true,
            loads_ahead: true,
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::File(self.pin.as_deref())
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, reads: &str) -> String {
        let whose = self
            .process
            .map_or_else(String::new, |pid| format!(" of process {pid}"));
        match &self.pin {
            None => format!("one walk over {}{whose}, {reads}", self.name),
            Some(pin) => format!(
                "a walk over {}{whose} for each reader of {}, {reads}",
                self.name,
                pin.display()
            ),
        }
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], _events: &Events<'_>) -> Result<Links> {
        let attach = |program: &&Program| match self.process {
            Some(pid) => Ok(Link::iterator(program, &IteratorScope::Process(pid))?),
            None => bound(program, kind),
        };
        let links: Result<Vec<Link>> = programs.iter().map(attach).collect();
        Ok(links?.into())
    }
}
