//! The compiler's input beside the text: one event's fields and arguments, and one kernel's features.

mod recorded;

use kestrel_bpf::btf::{Btf, PreemptCountPlace, TypeId};
use kestrel_trace::event_kind::{self, EventKindNames, SeenBy};
use kestrel_trace::layout::Space;
use std::ops::Range;
use std::sync::Arc;

/// The name of the event after all others of a script.
pub const END: &str = "end";

/// The kind of BPF program an event's hook is: decides what register 1 holds and what may be read directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramKind {
    /// `BPF_PROG_TYPE_KPROBE` at an entry or instruction: context is `struct pt_regs`.
    Kprobe,
    /// `BPF_PROG_TYPE_KPROBE` at a return: context is `struct pt_regs`.
    Kretprobe,
    /// `BPF_PROG_TYPE_TRACEPOINT`: context is the formatted entry.
    Tracepoint,
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`: context is an array of `u64` arguments.
    RawTracepoint,
    /// `BPF_PROG_TYPE_TRACING` on a tracepoint (`tp_btf`): an array of `u64` arguments, typed by BTF.
    TracingTracepoint,
    /// `BPF_PROG_TYPE_TRACING` on a function's entry (`fentry`): an array of `u64` arguments, typed by BTF.
    Fentry,
    /// `BPF_PROG_TYPE_TRACING` on a function's return (`fexit`): the arguments, then the return value.
    Fexit,
    /// `BPF_PROG_TYPE_TRACING` on a walk of the kernel's (`iter`): the parameters of its function, each in eight bytes, pointers typed by BTF and null where there is no object.
    Iterator,
    /// `BPF_PROG_TYPE_PERF_EVENT`: context is `struct bpf_perf_event_data`.
    PerfEvent,
}

impl Context {
    /// The kind that an event's name begins with.
    pub(crate) fn kind(&self) -> Option<&'static EventKindNames> {
        event_kind::find(self.name.split(':').next().unwrap_or_default())
    }

    /// The kind of the event for handlers: `special` for events of the program's own.
    pub(crate) fn probe_type(&self) -> &'static str {
        match self.kind() {
            Some(kind) if kind.seen_by == SeenBy::Session => "special",
            Some(kind) => kind.name,
            // Names of static events begin with their subsystem.
            None if self.program == ProgramKind::Tracepoint || self.name.contains(':') => {
                event_kind::TRACEPOINT.name
            }
            None => "special",
        }
    }
}

impl ProgramKind {
    /// Whether programs are of `BPF_PROG_TYPE_TRACING`: the verifier knows the types of their arguments, and helpers take pointers that it vouches for.
    pub(crate) fn is_tracing(self) -> bool {
        matches!(
            self,
            Self::Fentry | Self::Fexit | Self::TracingTracepoint | Self::Iterator
        )
    }
}

/// Source of an event's value.
#[allow(missing_docs, reason = "fields are described with their variant")]
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// `size` bytes at `offset` of the context, an integer of that size.
    Context { offset: u32, size: u8 },
    /// A string, or memory, whose place the entry gives as `__data_loc`: a `u32` at `offset`, low half the offset in the
    /// entry, high half the length in bytes.
    DataLocation { offset: u32 },
    /// A fixed array or text inside the context at `offset`.
    ContextArray { offset: u32, bytes: u32 },
    /// A member of the `struct pt_regs` that the context *is* (kprobes): byte offset of a `u64`.
    Register { offset: u32 },
    /// The `index`th `u64` of the context; `trusted` where the verifier knows its BTF type and lets us read through it.
    Argument { index: u32, trusted: bool },
    /// The process's memory at `offset` from the address that a register of the context holds (`register` as in [`Source::Register`]): the value itself, or, where it lies `behind`
    /// that, a word with its address.
    UserMemory {
        register: u32,
        offset: i64,
        behind: bool,
    },
    /// A struct by value: eight bytes after eight bytes from these, each a word.
    Words(Vec<Source>),
    /// An expression of the language over the event's other fields (a field rule of a raw tracepoint).
    Expression(String),
    /// Nowhere: the event has the field for others, but programs are not given it. A handler that names it is refused with `why`, and with what to do instead.
    Absent { why: String, instead: Option<String> },
}

/// A value's type as the catalog knows it.
#[allow(missing_docs, reason = "fields are described with their variant")]
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// A type of the kernel's BTF.
    Btf(TypeId),
    /// An integer; `base` is how it is shown.
    Integer {
        size: u8,
        signed: bool,
        base: kestrel_trace::layout::Base,
    },
    /// A boolean of one byte.
    Bool,
    /// An address of unknown type; `user` where it is the process's.
    Pointer { user: bool },
    /// An address of what C spells so: `struct timespec`, behind `levels` more pointers.
    PointerTo {
        spelling: String,
        levels: u8,
        user: bool,
    },
    /// `char *`: the address of a NUL-terminated string, in the process's or the kernel's memory.
    CString { user: bool },
    /// `char[n]`.
    CharArray { size: u32 },
    /// An array of integers or pointers.
    Array { element: Box<ValueType>, count: u32 },
    /// A string of variable length (`__data_loc char[]`).
    String,
    /// A string of variable length, cut to so many bytes.
    Shorter { max: u32 },
    /// At most so many bytes of memory.
    Memory { max: u32 },
    /// An integer with names for its values.
    Enumeration {
        size: u8,
        signed: bool,
        names: kestrel_trace::layout::Names,
    },
    /// An integer with names for its bits.
    Flags {
        size: u8,
        names: kestrel_trace::layout::Names,
    },
}

/// A named value that an event carries: `args.NAME` in the language, a field of `record()`.
#[derive(Clone, Debug, PartialEq)]
pub struct EventField {
    /// A C identifier.
    pub name: String,
    /// The field's type.
    pub ty: ValueType,
    /// Where it comes from.
    pub source: Source,
    /// Whether `record()` without arguments takes it (internal operands of field rules are not taken).
    pub recorded: bool,
}

/// A register of the processor as it was when the event happened: `reg("ax")`, a field of `record(regs)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// The kernel's name for it: `ax`.
    pub name: &'static str,
    /// Other names of the register: `rax`.
    pub aliases: &'static [&'static str],
    /// The register's type.
    pub ty: ValueType,
    /// Where its value is at the event.
    pub source: Source,
    /// Number that the kernel has added to it before the handler runs: 1 for the instruction pointer of a kprobe.
    pub added: u64,
    /// Bits that are always set and mean nothing: `record(regs)` leaves them out.
    pub meaningless: u64,
}

/// Two events of one thread that belong together: a function's entry and its return, an instruction's start and its end.
///
/// Both compute the same number (an address in the stack that is the same in both) by which, with the thread's, the second finds
/// what the first kept. Calls and interrupts that nest have other numbers.
#[derive(Clone)]
pub struct Pair {
    /// The event that comes first: `entry.EXPRESSION` is read there.
    pub first: Context,
    /// The number, as an expression at the first event.
    pub first_key: String,
    /// The number, as an expression at the second.
    pub key: String,
    /// Whether the second happens only where the first did, even if handlers ask nothing of it.
    pub always: bool,
    /// An event after which the second will not come, and the number as an expression there.
    pub aborted: Option<(Context, String)>,
}

/// Source of the event id in record headers.
///
/// A program that serves many events (*instances*) gives each as many numbers as its handlers have kinds of record: the number of record
/// `r` of instance `i` is `first + i * stride + r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are described above")]
pub enum EventNumber {
    /// One event: the number of its first record.
    Constant(u16),
    /// `bpf_get_attach_cookie` gives the instance.
    Cookie { first: u16, stride: u16 },
    /// The value of [`Context::selector`] is looked up in an external array map of `u16` that gives one more than the instance, 0 where the
    /// event is not wanted.
    Selected { first: u16, stride: u16 },
}

impl EventNumber {
    /// The set with these numbers for its events.
    pub fn numbered(self, first: u16, stride: u16) -> Self {
        match self {
            Self::Constant(_) => Self::Constant(first),
            Self::Cookie { .. } => Self::Cookie { first, stride },
            Self::Selected { .. } => Self::Selected { first, stride },
        }
    }
}

/// Selector by which one program distinguishes many events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// An expression over the event's fields.
    pub value: String,
    /// The external map: an array of `u16`.
    pub map: String,
}

/// Byte offsets in the kernel's `struct pt_regs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRegisters {
    /// Offset of the instruction pointer.
    pub ip: u32,
    /// Offset of the stack pointer.
    pub sp: u32,
    /// Offset of the frame pointer.
    pub bp: u32,
}

/// A PID namespace, as `bpf_get_ns_current_pid_tgid` wants it named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidNamespace {
    /// The device of its file in /proc.
    pub device: u64,
    /// The number of its file.
    pub inode: u64,
}

/// BPF features of this kernel, found by trying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `bpf_preempt_disable`/`bpf_preempt_enable` kernel functions (6.10).
    pub preempt_disable: bool,
    /// `bpf_local_irq_save`/`bpf_local_irq_restore` kernel functions (6.14).
    pub irq_save: bool,
    /// `bpf_get_attach_cookie` for this program kind.
    pub attach_cookie: bool,
    /// `bpf_get_func_ip` for this program kind.
    pub func_ip: bool,
    /// `bpf_get_current_task_btf` (5.11).
    pub current_task_btf: bool,
    /// `bpf_task_pt_regs` (5.15), and where in what it gives lie the instruction, stack and frame pointer.
    pub user_registers: Option<UserRegisters>,
    /// Where processes have the numbers of a PID namespace other than the first.
    pub pid_namespace: Option<PidNamespace>,
    /// `bpf_probe_read_kernel` and relatives (5.5); without them `bpf_probe_read` is used.
    pub probe_read_kernel: bool,
    /// Whether helpers that read memory answer how many bytes there are, where that is some and not all: those of programs over recordings do.
    pub counted_reads: bool,
    /// How programs read the preemption count; `None` where this kernel has no way, or where no handler asks for it.
    pub preempt_count: Option<PreemptCount>,
}

/// Location of the CPU's preemption count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreemptCount {
    /// Where the count is kept.
    pub place: PreemptCountPlace,
    /// Preempt count that the tracepoint and the program add in a program on a raw tracepoint.
    pub tracepoints: u8,
}

/// Code of the kernel's functions between a tracepoint and its programs, each where it is known. How many of them a stack begins with depends on what
/// else is attached to the tracepoint, and on the kernel: a stack without them is the same every time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dispatchers {
    /// `__bpf_trace_NAME`, which calls one program; it is in stacks where its call is not its last (system calls from 6.13 on).
    pub call: Option<Range<u64>>,
    /// `__traceiter_NAME`, which calls all that is attached; it is in stacks where that is more than one.
    pub iterate: Option<Range<u64>>,
}

/// One of the events that a program serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the event.
    pub name: String,
    /// The traced function.
    pub function: Option<String>,
}

/// Context of compilation: one resolved event on one kernel.
#[derive(Clone)]
pub struct Context {
    /// Name of the event: `sched:sched_switch`, `kprobe:vfs_read`; what `probe` gives.
    pub name: String,
    /// The traced function, for `func`.
    pub function: Option<String>,
    /// The kind of hook.
    pub program: ProgramKind,
    /// The number in record headers.
    pub number: EventNumber,
    /// With [`EventNumber::Selected`]: an expression over the fields, like a field rule, that is the index into the map.
    pub selector: Option<Selector>,
    /// The events that the program serves, by their places, where it serves many.
    pub members: Arc<[Member]>,
    /// Values the event carries.
    pub fields: Vec<EventField>,
    /// `arg0`…`arg9`, where the event has positional arguments.
    pub arguments: Vec<Source>,
    /// How many of [`arguments`](Self::arguments) a function's parameters are, where that is known: what is behind them is in no parameter.
    pub parameters: Option<usize>,
    /// `retval`, where it has one.
    pub return_value: Option<EventField>,
    /// `reg("ax")` and `regs`, where the event has all registers, in the order in which people read them.
    pub registers: Vec<Register>,
    /// Remarks for a user that names the event.
    pub remarks: Vec<String>,
    /// The event that this one ends, where it is known which that was.
    pub pair: Option<Arc<Pair>>,
    /// The kernel's types, if it publishes them.
    pub types: Option<Arc<Btf>>,
    /// Features of the kernel that generated code may use.
    pub features: Features,
    /// Whether loads through trusted pointers may be direct (else each is a probe read).
    pub direct_loads: bool,
    /// The address space of a plain number (an argument, a register) when it is cast to a pointer.
    pub space: Space,
    /// The `struct seq_file` of a pinned iterator, as an expression over the fields, like a field rule: printf and print are written there by the kernel, since
    /// the program outlives its session and records have no reader.
    pub seq_file: Option<String>,
    /// Whether a writer can be preempted between reserve and commit (see FACTS on preemption; 6.13 system calls, fentry).
    pub preemptible: bool,
    /// Addresses that kernel stacks do not begin with; nothing where no handler keeps stacks, or the kernel hides its addresses.
    pub dispatchers: Dispatchers,
}

impl Context {
    /// An event that carries nothing yet: no fields, arguments or registers, and a kernel that can do nothing; numbers are addresses of the
    /// kernel's, and writers are not preempted.
    pub fn new(name: impl Into<String>, program: ProgramKind) -> Self {
        Self {
            name: name.into(),
            function: None,
            program,
            number: EventNumber::Constant(0),
            selector: None,
            members: [].into(),
            fields: Vec::new(),
            arguments: Vec::new(),
            parameters: None,
            return_value: None,
            registers: Vec::new(),
            remarks: Vec::new(),
            pair: None,
            types: None,
            features: Features::default(),
            direct_loads: false,
            space: Space::Kernel,
            seq_file: None,
            preemptible: false,
            dispatchers: Dispatchers::default(),
        }
    }
}
