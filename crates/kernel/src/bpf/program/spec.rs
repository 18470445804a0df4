//! Parameters of a program load: its kind, code, maps and types.

use crate::bpf::sys::{AttachType, ProgramType};
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::code::Code;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

/// Kind of a program, which decides its context argument and what it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// A probe on kernel or user code, through a perf event; context `struct pt_regs`.
    Kprobe,
    /// A probe on many kernel functions through one link (`kprobe.multi`).
    KprobeMulti,
    /// A kprobe program of many functions, called at entry and at return with a cookie shared between them (`kprobe.session`).
    KprobeSession,
    /// A probe on many user functions through one link (`uprobe.multi`).
    UprobeMulti,
    /// A uprobe program of many functions, called at entry and at return (`uprobe.session`).
    UprobeSession,
    /// A tracepoint's formatted entry, through a perf event.
    Tracepoint,
    /// A tracepoint's raw arguments (`u64[]`).
    RawTracepoint,
    /// A tracepoint's raw arguments with their types known to the verifier (`tp_btf`); the id is that of `btf_trace_<name>`.
    TypedTracepoint(TypeId),
    /// Entry of a kernel function, arguments typed (`fentry`).
    FunctionEntry(TypeId),
    /// Return of a kernel function, arguments and result typed (`fexit`).
    FunctionExit(TypeId),
    /// The entry of a module's function: the second number is that of the module's types ([`crate::bpf::module_btf_id`]).
    ModuleFunctionEntry(TypeId, u32),
    /// Return of a module's function.
    ModuleFunctionExit(TypeId, u32),
    /// The entry of a function of a BPF program: its id among the program's types, and the program's number.
    ProgramFunctionEntry(TypeId, u32),
    /// Return of a BPF program's function.
    ProgramFunctionExit(TypeId, u32),
    /// A perf event's overflow.
    PerfEvent,
    /// A socket filter: the one kind for which test runs are always possible.
    SocketFilter,
    /// Run by hand only (`BPF_PROG_TYPE_SYSCALL`).
    Syscall,
    /// Any other kind, by the kernel's numbers.
    Other(ProgramType, AttachType, TypeId),
}

impl ProgramKind {
    /// Whether one link attaches it to many functions.
    pub fn is_multi(self) -> bool {
        matches!(self, Self::KprobeMulti | Self::UprobeMulti)
    }

    /// The kernel's program type, expected attach type and BTF id for it.
    pub fn numbers(self) -> (ProgramType, AttachType, TypeId) {
        let plain = |program| (program, AttachType::NONE, TypeId(0));
        match self {
            Self::Kprobe => plain(ProgramType::KPROBE),
            Self::KprobeMulti => (ProgramType::KPROBE, AttachType::TRACE_KPROBE_MULTI, TypeId(0)),
            Self::KprobeSession => (ProgramType::KPROBE, AttachType::TRACE_KPROBE_SESSION, TypeId(0)),
            Self::UprobeMulti => (ProgramType::KPROBE, AttachType::TRACE_UPROBE_MULTI, TypeId(0)),
            Self::UprobeSession => (ProgramType::KPROBE, AttachType::TRACE_UPROBE_SESSION, TypeId(0)),
            Self::Tracepoint => plain(ProgramType::TRACEPOINT),
            Self::RawTracepoint => plain(ProgramType::RAW_TRACEPOINT),
            Self::TypedTracepoint(id) => (ProgramType::TRACING, AttachType::TRACE_RAW_TP, id),
            Self::FunctionEntry(id)
            | Self::ModuleFunctionEntry(id, _)
            | Self::ProgramFunctionEntry(id, _) => (ProgramType::TRACING, AttachType::TRACE_FENTRY, id),
            Self::FunctionExit(id) | Self::ModuleFunctionExit(id, _) | Self::ProgramFunctionExit(id, _) => {
                (ProgramType::TRACING, AttachType::TRACE_FEXIT, id)
            }
            Self::PerfEvent => plain(ProgramType::PERF_EVENT),
            Self::SocketFilter => plain(ProgramType::SOCKET_FILTER),
            Self::Syscall => plain(ProgramType::SYSCALL),
            Self::Other(program, attach, id) => (program, attach, id),
        }
    }
}

/// Everything needed to load a program.
#[derive(Clone, Copy)]
pub struct ProgramSpec<'a> {
    /// The name, for people: the kernel keeps 15 bytes, and other characters than letters, digits and `.` become `_`.
    pub name: &'a str,
    /// The function's name among the program's types, by which it is traced; other characters than letters, digits and `_` become `_`.
    pub function: Option<&'a str>,
    /// The kind of program.
    pub kind: ProgramKind,
    /// The code, references unresolved.
    pub code: &'a Code,
    /// The maps that the code refers to by [`kestrel_bpf::code::MapRef`]: the reference is the index.
    pub maps: &'a [BorrowedFd<'a>],
    /// The BTF id of a kernel function that programs may call, by name.
    pub kfunc: &'a dyn Fn(&str) -> Option<TypeId>,
    /// The license declared to the kernel; many helpers want a GPL-compatible one.
    pub license: &'a CStr,
    /// `BPF_F_*` of programs, such as [`crate::bpf::sys::PROGRAM_SLEEPABLE`].
    pub flags: u32,
    /// The module (its BTF) or program that the kind's BTF id belongs to; `None` for the kernel itself.
    pub target: Option<BorrowedFd<'a>>,
    /// Types, lines and relocations that came with an object file.
    pub btf: Option<ProgramBtf<'a>>,
    /// The kernel's version as `LINUX_VERSION_CODE`, which kernels before 5.0 compare with their own for kprobe programs; 0 elsewhere.
    pub kernel_version: u32,
    /// The types of modules whose functions are called: a call names one by its place here, from 1 on, in its offset.
    pub modules: &'a [BorrowedFd<'a>],
    /// 0: the verifier writes a log only when it refuses; 1 or 2: always, also for what it accepts (see [`crate::bpf::Program::log`]).
    pub log_level: u32,
}

impl<'a> ProgramSpec<'a> {
    /// A program that refers to `maps` and calls no kernel functions.
    pub fn new(name: &'a str, kind: ProgramKind, code: &'a Code, maps: &'a [BorrowedFd<'a>]) -> Self {
        Self {
            name,
            function: None,
            kind,
            code,
            maps,
            kfunc: &|_| None,
            license: c"Dual MIT/GPL",
            flags: 0,
            target: None,
            btf: None,
            kernel_version: 0,
            modules: &[],
            log_level: 0,
        }
    }

    /// The specification with a way to find kernel functions.
    pub fn with_kfunc(mut self, kfunc: &'a dyn Fn(&str) -> Option<TypeId>) -> Self {
        self.kfunc = kfunc;
        self
    }
}

impl std::fmt::Debug for ProgramSpec<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramSpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("insns", &self.code.insns.len())
            .field("maps", &self.maps.len())
            .finish_non_exhaustive()
    }
}

/// BTF information of a program from its object file, in the kernel's own layouts (`.BTF.ext`).
#[derive(Clone, Copy, Debug)]
pub struct ProgramBtf<'a> {
    /// The object's types, loaded by [`crate::bpf::load_btf`].
    pub btf: BorrowedFd<'a>,
    /// `struct bpf_func_info` records, 8 bytes each.
    pub functions: &'a [u8],
    /// `struct bpf_line_info` records, 16 bytes each.
    pub lines: &'a [u8],
    /// `struct bpf_core_relo` records, 16 bytes each: the kernel itself adapts field accesses (Linux 5.17 and later).
    pub relocations: &'a [u8],
}
