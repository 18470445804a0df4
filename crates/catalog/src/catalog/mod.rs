//! The catalog of events of this kernel: event kinds, their names, fields and the strategies to attach to them; nothing here attaches anything.

mod bpf_function;
mod canonical_name;
pub mod class;
pub mod counter;
mod function;
mod glob;
mod instruction;
mod instruction_of_file;
mod iterator;
pub mod jprobe;
pub mod kind;
mod lookup;
mod mark;
mod own;
pub mod phase;
mod raw_tracepoint;
mod spec;
pub mod tracepoint;
mod trampoline;
mod typed;
mod uprobe;
mod usdt;
mod user_files;
mod user_place;
mod user_types;

pub use crate::arch;
pub use counter::counter_kind;
pub use counter::interval::interval;
pub use glob::Glob;
pub use kind::{DescribedField, Description, EventKind, Instance, Resolved, Strategy, TypesWanted, Via};
pub use lookup::Catalog;
pub use spec::text_of;

use kestrel_kernel::Host;
use kind::Kinds;

/// A table: the kinds, in the order in which they are listed and tried.
const KINDS: &[&dyn EventKind] = &[
    &tracepoint::Tracepoint,
    &raw_tracepoint::RawTracepoint,
    &function::KPROBE,
    &function::KRETPROBE,
    &jprobe::Jprobe,
    &trampoline::FENTRY,
    &trampoline::FEXIT,
    &uprobe::UPROBE,
    &uprobe::URETPROBE,
    &usdt::Usdt,
    &class::ClassKind,
    &mark::Mark,
    &iterator::Iterator,
    &own::BEGIN,
    &own::END,
    &own::SELF,
    &own::TEST,
    &own::BENCH,
];

/// All kinds, those of counters included.
const ALL: Kinds = Kinds::of(&[KINDS, counter::KINDS]);

/// All kinds, in the order in which they are listed and tried.
pub fn kinds() -> impl Iterator<Item = &'static dyn EventKind> {
    ALL.all()
}

/// Whether a kind is an event of a program that runs (`begin`, `end`, a walk), which sessions of other sources do not fire.
pub fn is_own_event(kind: &str) -> bool {
    kind == iterator::Iterator.name() || own::OWN.iter().any(|own| own.name() == kind)
}

/// The kind with this name or alias.
pub fn find_kind(name: &str) -> Option<&'static dyn EventKind> {
    ALL.find(name)
}

impl Catalog {
    /// The catalog of a host.
    pub fn new(host: Host) -> Self {
        Self::with_kinds(host, ALL)
    }
}
