//! Raw tracepoints, untyped and typed.

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections, type_id};
use super::links::{Links, Order};
use super::site::Sites;
use super::trampoline::bound;
use crate::error::Result;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Link, Program, ProgramKind};
use serde::{Deserialize, Serialize};

/// A raw tracepoint by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct RawTracepoint {
    pub name: String,
}

/// A raw tracepoint with typed arguments; the id is that of `btf_trace_<name>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct TypedTracepoint {
    pub name: String,
    #[serde(with = "type_id")]
    pub id: TypeId,
}

impl Attach for RawTracepoint {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::RawTracepoint])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        1
    }

    fn profile(&self) -> Profile {
        Profile {
            sections: Sections {
                hooks: &[Hook::RawTracepoint],
                written: "SEC(\"raw_tp\")",
                loadable: None,
            },
            letter: 't',
            preempted: Preempted::AsTracepoints,
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
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        format!("raw tracepoint {}", self.name)
    }

    fn attach(&self, _kind: ProgramKind, programs: &[&Program], _events: &Events<'_>) -> Result<Links> {
        let attach = |program: &Program| Ok(Link::raw_tracepoint(program, &self.name, 0)?);
        Links::one_after_another(programs, Order::OldestFirst, &attach)
    }
}

impl Attach for TypedTracepoint {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::TypedTracepoint(self.id)])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        1
    }

    fn profile(&self) -> Profile {
        Profile {
            sections: Sections {
                hooks: &[Hook::TypedTracepoint],
                written: "SEC(\"tp_btf\")",
                loadable: Some((Hook::RawTracepoint, "SEC(\"raw_tp\")")),
            },
            letter: 't',
            preempted: Preempted::AsTracepoints,
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
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, reads: &str) -> String {
        format!("raw tracepoint {}, typed, {reads}", self.name)
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], _events: &Events<'_>) -> Result<Links> {
        Links::one_after_another(programs, Order::OldestFirst, &|program| bound(program, kind))
    }
}
