//! Trampolines of functions: `fentry` and `fexit`.

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections, type_id};
use super::links::{Links, Order};
use super::site::Sites;
use crate::error::Result;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Link, Program, ProgramKind, module_btf_id};
use serde::{Deserialize, Serialize};

/// A function's trampoline; the id is that of the function, among the types of its module or BPF program (by its number) where it is in one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Trampoline {
    pub module: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    pub function: String,
    #[serde(with = "type_id")]
    pub id: TypeId,
    pub at_return: bool,
}

/// Attaches a program to the target that its kind was bound to at load: a function, a typed tracepoint, an LSM hook, an iterator without a target.
///
/// # Errors
/// When the kernel refuses.
pub fn bound(program: &Program, kind: ProgramKind) -> Result<Link> {
    Ok(Link::tracing(program, kind.numbers().1, 0)?)
}

impl Attach for Trampoline {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        if let Some(program) = self.program {
            return Ok(vec![match self.at_return {
                false => ProgramKind::ProgramFunctionEntry(self.id, program),
                true => ProgramKind::ProgramFunctionExit(self.id, program),
            }]);
        }
        Ok(vec![match (&self.module, self.at_return) {
            (None, false) => ProgramKind::FunctionEntry(self.id),
            (None, true) => ProgramKind::FunctionExit(self.id),
            (Some(module), false) => ProgramKind::ModuleFunctionEntry(self.id, module_btf_id(module)?),
            (Some(module), true) => ProgramKind::ModuleFunctionExit(self.id, module_btf_id(module)?),
        }])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        1
    }

    fn profile(&self) -> Profile {
        Profile {
            sections: match self.at_return {
                false => Sections {
                    hooks: &[Hook::Fentry],
                    written: "SEC(\"fentry\")",
                    loadable: None,
                },
                true => Sections {
                    hooks: &[Hook::Fexit],
                    written: "SEC(\"fexit\")",
                    loadable: None,
                },
            },
            letter: 'f',
            preempted: Preempted::AsTrampolines,
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
        Sites::Trampoline(self.module.as_deref(), self.id)
    }

    fn describe(&self, reads: &str) -> String {
        let section = if self.at_return { "fexit" } else { "fentry" };
        format!("{section} {}, {reads}", self.function)
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], _events: &Events<'_>) -> Result<Links> {
        Links::one_after_another(programs, Order::NewestFirst, &|program| bound(program, kind))
    }
}
