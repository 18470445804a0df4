//! Calls of functions from entry to return, with one link and one program for both (`BPF_TRACE_KPROBE_SESSION`, Linux 6.10).

use super::family::{Attach, CallEnd, Events, Profile, Runner};
use super::function::Functions;
use super::kprobe;
use super::links::Links;
use super::site::Sites;
use crate::error::Result;
use kestrel_kernel::bpf::{Program, ProgramKind};
use serde::{Deserialize, Serialize};

/// Entries and returns of functions, by one program that asks the kernel which of the two it runs at (`bpf_session_is_return`). The two hooks that share the program
/// each have their own part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Calls {
    pub at_return: bool,
}

impl Attach for Calls {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::KprobeSession])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        2
    }

    fn profile(&self) -> Profile {
        Profile {
            call_end: Some(match self.at_return {
                false => CallEnd::Entry,
                true => CallEnd::Return,
            }),
            ..kprobe::PROFILE
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        // A multi link holds the modules of its functions (`get_modules_from_addrs` in kernel/trace/bpf_trace.c): they are not unloaded meanwhile.
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        "kprobe session: entry and return by one program".to_owned()
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let functions = Functions {
            at_return: false,
            alone: false,
            maxactive: None,
        };
        functions.attach(kind, programs, events)
    }
}
