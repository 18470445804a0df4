//! Attaching programs to the kernel: one file per family of mechanisms, one row each in [`Mechanism`]; the one way for sessions, named probes and objects.

mod call;
mod counter;
mod detach;
mod family;
mod function;
mod iterator;
mod kprobe;
mod links;
mod on_request;
pub mod own_event;
mod raw_tracepoint;
mod site;
mod tracepoint;
mod trampoline;
mod uprobe;
mod usdt;

use crate::error::{Error, Result};
pub use call::Calls;
pub use counter::{Counter, online};
pub use detach::{AT_ONCE, close_many, is_slow, turn};
pub use family::{Attach, CallEnd, Events, Formatted, Load, LoadOthers, Runner, Sections};
pub use function::{Entry, Functions};
pub use iterator::Iterator;
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
pub use kprobe::{Instruction, Instructions, Kprobe, KprobeVia};
pub use links::{Links, OnlineCpu};
pub use on_request::OnRequest;
pub use raw_tracepoint::{RawTracepoint, TypedTracepoint};
use serde::{Deserialize, Serialize};
pub use site::{KprobeSite, Sites};
use std::ops::Deref;
pub use tracepoint::{Tracepoint, Tracepoints};
pub use trampoline::{Trampoline, bound};
pub use uprobe::{Uprobes, UserPlaces};
pub use usdt::Usdt;

macro_rules! mechanisms {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Mechanism by which a hook is attached, with its target. States of persistent sessions keep it.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Mechanism {
            $($(#[$doc])* $name($name),)*
        }

        impl Deref for Mechanism {
            type Target = dyn Attach;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$name(mechanism) => mechanism,)*
                }
            }
        }

        $(impl From<$name> for Mechanism {
            fn from(mechanism: $name) -> Self {
                Self::$name(mechanism)
            }
        })*
    };
}

// A table: the mechanisms.
mechanisms! {
    /// A tracepoint's perf event: the program sees the formatted entry.
    Tracepoint,
    /// Tracepoints of one entry format, by a perf event each.
    Tracepoints,
    /// A raw tracepoint.
    RawTracepoint,
    /// A raw tracepoint with typed arguments.
    TypedTracepoint,
    /// Functions by kprobe or kretprobe, or all of them by one multi link.
    Functions,
    /// Entries and returns of functions by one program and one link.
    Calls,
    /// One function's entry by a multi link, which costs less than a kprobe.
    Entry,
    /// One instruction by kprobe, or one function's return by kretprobe.
    Instruction,
    /// Several instructions by kprobe.
    Instructions,
    /// A function's trampoline.
    Trampoline,
    /// A walk over all objects of a kind.
    Iterator,
    /// A counter or clock of the kernel.
    Counter,
    /// Places of a program or library.
    Uprobes,
    /// No attachment: the session runs the program itself.
    OnRequest,
    /// A USDT probe of a program or library.
    Usdt,
}

impl Mechanism {
    /// Loads and attaches the best kind of program that this kernel knows.
    ///
    /// # Errors
    /// Errors of loading, and of the kernel; nothing is left attached then.
    pub fn load_and_attach(
        &self,
        events: &Events<'_>,
        load: &Load<'_>,
        others: &LoadOthers<'_>,
    ) -> Result<(Program, Vec<Map>, Links)> {
        let kinds = self.program_kinds(events.names.len())?;
        let mut refused = None;
        for kind in kinds.into_iter().filter(|kind| events.known.uses(*kind)) {
            let attach = || {
                let (program, maps) = load(kind)?;
                let others = others(kind)?;
                let programs: Vec<&Program> = std::iter::once(&program).chain(&others).collect();
                let links = self.attach(kind, &programs, events)?;
                Ok((program, maps, links))
            };
            match attach() {
                Err(error) if is_unknown_kind(kind, &error) => refused = Some(error),
                done => return done,
            }
        }
        Err(refused.unwrap_or_else(|| self.no_kind()))
    }

    /// The kind of program that an attached hook can tail-call (`bpf_prog_map_compatible` in kernel/bpf/core.c); `multi` says whether its functions share one link.
    ///
    /// # Errors
    /// As [`Attach::program_kinds`].
    pub fn called_kind(&self, multi: bool) -> Result<ProgramKind> {
        let kinds = self.program_kinds(if multi { usize::MAX } else { 1 })?;
        let mut fitting = kinds.iter().filter(|kind| kind.is_multi() == multi);
        let kind = fitting.next().or(kinds.first());
        kind.copied().ok_or_else(|| self.no_kind())
    }

    fn no_kind(&self) -> Error {
        Error::Unsupported {
            what: self.describe(""),
            why: "no kind of program serves it".to_owned(),
        }
    }

    /// Whether both attach at the same place; how many calls are followed at once (`maxactive`) is not compared.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let plain = |mechanism: &Self| {
            let mut plain = mechanism.clone();
            match &mut plain {
                Self::Functions(functions) => functions.maxactive = None,
                Self::Instruction(instruction) => instruction.maxactive = None,
                Self::Tracepoint(_)
                | Self::Tracepoints(_)
                | Self::RawTracepoint(_)
                | Self::TypedTracepoint(_)
                | Self::Calls(_)
                | Self::Entry(_)
                | Self::Instructions(_)
                | Self::Trampoline(_)
                | Self::Iterator(_)
                | Self::Counter(_)
                | Self::Uprobes(_)
                | Self::OnRequest(_)
                | Self::Usdt(_) => {}
            }
            plain
        };
        plain(self) == plain(other)
    }

    /// Whether both are the same but for addresses in modules: a module's functions have other addresses each time it is loaded, and none before.
    pub fn is_same_after_reload(&self, other: &Self) -> bool {
        let unplaced = |mechanism: &Self| {
            let mut unplaced = mechanism.clone();
            if let Self::Instruction(instruction) = &mut unplaced
                && instruction.place.module.is_some()
            {
                (instruction.address, instruction.by_name) = (0, true);
            }
            unplaced
        };
        unplaced(self) == unplaced(other)
    }
}

/// Whether the kernel has no links of a kind (`kprobe.multi`: no FPROBE, or older than 5.18; `uprobe.multi`: older than 6.6), so that another kind is to be tried.
fn is_unknown_kind(kind: ProgramKind, error: &Error) -> bool {
    kind.is_multi()
        && matches!(
            error.errno(),
            Some(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOTSUPP)
        )
}
