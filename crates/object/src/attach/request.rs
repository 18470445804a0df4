//! Attach requests: what a family is given of a program that is to be attached.

use crate::kernel::Kernel;
use crate::map::BpfMap;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::object::SectionKind;
use kestrel_catalog::attach::{Attach, Events, KprobeVia, Links};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Program, ProgramKind};

/// A program that is to be attached, with all that its family must know.
pub(crate) struct AttachRequest<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) name: &'a str,
    pub(crate) kind: &'static SectionKind,
    pub(crate) target: &'a str,
    /// The target as the section has it, whatever the settings name.
    pub(crate) written: &'a str,
    pub(crate) at_return: bool,
    pub(crate) via: KprobeVia,
    /// The object's maps, once they are made.
    pub(crate) maps: &'a [BpfMap],
}

impl AttachRequest<'_> {
    pub(crate) fn wrong(&self, why: impl Into<String>) -> Error {
        Error::Object {
            object: format!("program {}", self.name),
            why: why.into(),
        }
    }

    /// Attaches its program, loaded as this kind, by a mechanism to events of these names.
    pub(crate) fn attach(
        &self,
        (program, kind): (&Program, ProgramKind),
        by: &dyn Attach,
        names: &[&str],
    ) -> Result<Links> {
        let events = Events {
            known: &self.kernel.known,
            names,
            optional: false,
        };
        by.attach(kind, &[program], &events)
    }

    /// The target, which must be there.
    pub(crate) fn target(&self) -> Result<&str> {
        if self.target.is_empty() {
            return Err(self.wrong(format!(
                "its section does not say what to attach to: give it as {}=…, in the way of `{}` behind the slash",
                self.name, self.kind.shape
            )));
        }
        Ok(self.target)
    }
}

/// Result of binding, where it differs from the section's row.
#[derive(Default)]
pub(super) struct Binding {
    pub(super) id: Option<TypeId>,
    pub(super) module: Option<String>,
    pub(super) kind: Option<ProgramKind>,
}

impl From<ProgramKind> for Binding {
    fn from(kind: ProgramKind) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }
}
