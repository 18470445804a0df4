//! What a family is given of a program that is to be attached, and what it gives back.

use crate::kernel::Kernel;
use crate::map::BpfMap;
use crate::settings::Via;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::object::Kind;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Link, ProgramKind};
use kestrel_kernel::perf::{Attachment, PerfEvent};
use kestrel_kernel::tracefs::KprobeEvent;

/// What keeps a program attached; dropping it detaches.
#[derive(Debug)]
#[allow(dead_code, reason = "some are only kept")]
pub(crate) enum Tie {
    Link(Link),
    /// A perf event that the program was hung on without a link.
    Event(PerfEvent),
    /// The same, on an event of tracefs that goes after it.
    Traced(PerfEvent, KprobeEvent),
}

impl From<Attachment> for Tie {
    fn from(attachment: Attachment) -> Self {
        match attachment {
            Attachment::Link(link) => Self::Link(link),
            Attachment::Event(event) => Self::Event(event),
        }
    }
}

impl Tie {
    /// The link, which can be pinned, if it is one.
    pub(crate) fn link(&self) -> Option<&Link> {
        match self {
            Self::Link(link) => Some(link),
            _ => None,
        }
    }

    /// How it is attached, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Link(_) => "link".to_owned(),
            Self::Event(_) => "perf event".to_owned(),
            Self::Traced(_, event) => format!("tracefs {}/{}", event.group(), event.name()),
        }
    }
}

/// A program that is to be attached, with all that its family must know.
pub(crate) struct Request<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) name: &'a str,
    pub(crate) kind: &'static Kind,
    pub(crate) target: &'a str,
    /// What the section says it were.
    pub(crate) said: &'a str,
    pub(crate) at_return: bool,
    pub(crate) via: Via,
    /// The object's maps, once they are made.
    pub(crate) maps: &'a [BpfMap],
}

impl Request<'_> {
    pub(crate) fn wrong(&self, why: impl Into<String>) -> Error {
        Error::Object {
            object: format!("program {}", self.name),
            why: why.into(),
        }
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

/// What binding changes about what the section's row says.
#[derive(Default)]
pub(super) struct Binding {
    pub(super) id: Option<TypeId>,
    pub(super) module: Option<String>,
    pub(super) kind: Option<ProgramKind>,
}
