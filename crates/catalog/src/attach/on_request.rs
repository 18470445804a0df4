//! Programs that no event of the kernel runs: the session itself runs them (`BPF_PROG_TEST_RUN`), at its begin, its end, or when a signal comes.

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections};
use super::links::Links;
use super::site::Sites;
use crate::error::Result;
use kestrel_kernel::bpf::{Program, ProgramKind};
use serde::{Deserialize, Serialize};

/// An event of the session's own, by its name (`begin`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct OnRequest {
    pub name: String,
    /// Nanoseconds from one to the next, where it comes from time to time.
    #[serde(default)]
    pub every: Option<u64>,
}

impl Attach for OnRequest {
    /// The kernel runs raw tracepoint programs on request from 5.10 on.
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::RawTracepoint])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        0
    }

    fn profile(&self) -> Profile {
        Profile {
            sections: Sections {
                hooks: &[],
                written: "",
                loadable: None,
            },
            letter: 't',
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
        Runner::Session(self)
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        match self.every {
            None => format!("run by the session itself at {}", self.name),
            Some(_) => format!("printed by the session itself at {}", self.name),
        }
    }

    fn attach(&self, _kind: ProgramKind, _programs: &[&Program], _events: &Events<'_>) -> Result<Links> {
        Ok(Links::default())
    }
}
