//! The trait of a mechanism: how its programs are loaded, attached, counted and described.

use super::counter::Counter;
use super::links::Links;
use super::on_request::OnRequest;
use super::site::Sites;
use crate::code::CodeCache;
use crate::error::Result;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
use kestrel_kernel::preemption::Preemption;
use std::path::Path;

/// Interface of a mechanism of attaching. Nothing has a default: one that does not answer all of it does not compile.
pub trait Attach {
    /// The kinds of program that it takes for so many events, best first: the next is tried where this kernel does not know the one before.
    ///
    /// # Errors
    /// When what it is attached to is in a module that is not loaded.
    fn program_kinds(&self, events: usize) -> Result<Vec<ProgramKind>>;

    /// Most links and perf events that it keeps open, for this number of events and CPUs.
    fn descriptors(&self, events: u64, cpus: u64) -> u64;

    /// Properties of the mechanism that planner, sessions and status need.
    fn profile(&self) -> Profile;

    /// The part of the kernel that runs its programs, which decides what the session does for them.
    fn runner(&self) -> Runner<'_>;

    /// Where in the kernel's code its programs run, as far as a session follows that.
    fn sites(&self) -> Sites<'_>;

    /// Description in words; `reads` is how its programs read memory.
    fn describe(&self, reads: &str) -> String;

    /// Attaches a hook's programs, which the kernel runs in this order.
    ///
    /// # Errors
    /// The kernel's; nothing is left attached then.
    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links>;
}

/// Properties that all hooks of a mechanism share.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Sections of objects whose programs it can run.
    pub sections: Sections,
    /// The letter in the kernel's list of probes: `k`, `r` for kretprobes, `f` for trampolines; `t` for what that does not list.
    pub letter: char,
    /// Whether threads are preempted in its programs, so that the kernel skips hits of others meanwhile.
    pub preempted: Preempted,
    /// Whether the kernel skips a hit where another BPF program runs on that CPU (`trace_call_bpf` in kernel/trace/bpf_trace.c).
    pub guarded: bool,
    /// The `maxactive` of a kretprobe, the most calls on their way whose returns are probed, where it was given.
    pub maxactive: Option<u32>,
    /// Whether events that are named one by one may become one set, which one program serves.
    pub joins: bool,
    /// Whether its programs see formatted entries of tracepoints.
    pub formatted: Formatted,
    /// Where one program sees both ends of calls: which of them the hook is.
    pub call_end: Option<CallEnd>,
    /// Whether a second hook of the same event can be passed what the first read, as tables are loaded that the first cannot call.
    pub relays: bool,
    /// Whether its programs can be loaded, by several threads, before any is attached.
    pub loads_ahead: bool,
}

/// The part of the kernel that runs the programs of a mechanism.
#[derive(Clone, Copy, Debug)]
pub enum Runner<'a> {
    /// The kernel, from when they are attached until they are detached.
    Kernel,
    /// The kernel, on CPUs that they are attached to one by one: those that come later have to be attached to.
    Cpus(&'a Counter),
    /// A read of an iterator's file: a new file that the session reads, or, with a path, the file pinned there, which any process may read.
    File(Option<&'a Path>),
    /// The session itself, at an event of its own.
    Session(&'a OnRequest),
}

/// Formatted entries of tracepoints, as programs see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formatted {
    /// Programs see something else.
    No,
    /// The programs of one tracepoint.
    One,
    /// The programs of all tracepoints whose entries are alike.
    Alike,
}

/// End of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Where the function is entered.
    Entry,
    /// Where it returns.
    Return,
}

/// Kernels on which threads are preempted in programs.
#[derive(Clone, Copy, Debug)]
pub enum Preempted {
    /// On no kernel.
    Never,
    /// Where they are in programs of raw tracepoints.
    AsTracepoints,
    /// Where they are in programs of trampolines.
    AsTrampolines,
}

impl dyn Attach {
    /// Sections of objects whose programs it can run.
    pub fn sections(&self) -> Sections {
        self.profile().sections
    }

    /// The letter in the kernel's list of probes.
    pub fn letter(&self) -> char {
        self.profile().letter
    }

    /// Whether threads are preempted in its programs.
    pub fn is_preempted(&self, preemption: Preemption) -> bool {
        match self.profile().preempted {
            Preempted::Never => false,
            Preempted::AsTracepoints => preemption.tracepoints,
            Preempted::AsTrampolines => preemption.trampolines,
        }
    }

    /// Whether the kernel skips a hit where another BPF program runs on that CPU.
    pub fn is_guarded(&self) -> bool {
        self.profile().guarded
    }

    /// The `maxactive` of a kretprobe, where it was given.
    pub fn maxactive(&self) -> Option<u32> {
        self.profile().maxactive
    }

    /// Whether events that are named one by one may become one set.
    pub fn joins(&self) -> bool {
        self.profile().joins
    }

    /// Whether its programs see formatted entries of tracepoints.
    pub fn formatted(&self) -> Formatted {
        self.profile().formatted
    }

    /// Which end of calls the hook is, where one program sees both.
    pub fn call_end(&self) -> Option<CallEnd> {
        self.profile().call_end
    }

    /// Whether a second hook of the same event can be passed what the first read.
    pub fn relays(&self) -> bool {
        self.profile().relays
    }

    /// Whether its programs can be loaded before any is attached.
    pub fn loads_ahead(&self) -> bool {
        self.profile().loads_ahead
    }

    /// The event of the session's own that runs its programs.
    pub fn own_event(&self) -> Option<&OnRequest> {
        match self.runner() {
            Runner::Session(own) => Some(own),
            Runner::Kernel | Runner::Cpus(_) | Runner::File(_) => None,
        }
    }

    /// The counter whose programs are attached to CPUs one by one.
    pub fn counter(&self) -> Option<&Counter> {
        match self.runner() {
            Runner::Cpus(counter) => Some(counter),
            Runner::Kernel | Runner::Session(_) | Runner::File(_) => None,
        }
    }

    /// Whether its programs run as the session reads a file.
    pub fn is_read(&self) -> bool {
        matches!(self.runner(), Runner::File(None))
    }

    /// Where its link is pinned, if the session is to leave it behind.
    pub fn pin(&self) -> Option<&Path> {
        match self.runner() {
            Runner::File(pin) => pin,
            Runner::Kernel | Runner::Cpus(_) | Runner::Session(_) => None,
        }
    }
}

/// Sections of objects.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    /// Hooks of sections whose programs can be attached so.
    pub hooks: &'static [Hook],
    /// The spelling of an event's name.
    pub written: &'static str,
    /// Another kind of section whose programs have the same arguments, so that they can be loaded as the type that an existing hook calls; and its spelling.
    pub loadable: Option<(Hook, &'static str)>,
}

/// The events that one program is to be attached to, on which kernel.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    /// Facts of the kernel.
    pub known: &'a CodeCache,
    /// The names: functions without their kind, tracepoints as `group:name`. The cookie of each is its place here.
    pub names: &'a [&'a str],
    /// Whether those that the kernel refuses may be missing, as long as there is one and nothing runs short.
    pub optional: bool,
}

/// Loads a hook's code as a program of a kind, with the maps that it alone has.
pub type Load<'a> = dyn Fn(ProgramKind) -> Result<(Program, Vec<Map>)> + 'a;

/// Loads the programs that are to be run behind the first one (second chances), if there are some, in this order.
pub type LoadOthers<'a> = dyn Fn(ProgramKind) -> Result<Vec<Program>> + 'a;

/// Numbers of types as states keep them.
pub(super) mod type_id {
    use kestrel_bpf::btf::TypeId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(id: &TypeId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(id.0)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TypeId, D::Error> {
        u32::deserialize(from).map(TypeId)
    }
}
