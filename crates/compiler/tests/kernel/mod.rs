//! A miniature kernel: a few types and events on them, enough to check every construct of the language.

#![allow(dead_code, reason = "each test uses some of the events")]

use kestrel_bpf::btf::write::{Builder, Placed};
use kestrel_bpf::btf::{Btf, TypeId};
use kestrel_compiler::check::{globals::Globals, parameters};
use kestrel_compiler::context::{Context, EventField, EventNumber, Features, ProgramKind, Source, ValueType};
use kestrel_compiler::lang::parse_script;
use kestrel_trace::layout::Base;
use kestrel_trace::layout::Space;
use std::sync::Arc;

/// Declarations of a table file: three tables, two buffers, parameters, and an agent.
pub(crate) fn session() -> Globals {
    let (script, found) = parse_script(
        "param threshold = 10ms; param loud = false; param mask = 0xffffffffffffffff; param least = -5",
    );
    assert!(found.is_empty());
    let (parameters, found) = parameters(&script.items);
    assert!(found.is_empty());
    let mut globals = Globals::default();
    globals
        .tables
        .extend(["normal", "detail", "oom"].map(str::to_owned));
    globals.buffers.extend(["main", "target"].map(str::to_owned));
    globals.parameters.extend(parameters);
    globals.messages = true;
    globals
}

/// Types that events speak of.
struct Types {
    btf: Arc<Btf>,
    task_pointer: TypeId,
    file_pointer: TypeId,
    user_text: TypeId,
    state: TypeId,
}

fn types() -> Types {
    let mut b = Builder::new();
    let int = b.int("int", 4);
    let unsigned = b.unsigned("unsigned int", 4);
    let long = b.unsigned("long unsigned int", 8);
    let short = b.unsigned("short unsigned int", 2);
    let char = b.character();
    let boolean = b.boolean();
    let double = b.float("double", 8);
    let comm = b.array(char, 16);
    let pid_t = b.typedef("pid_t", int);
    let state = b.enumeration(
        "pid_type",
        4,
        &[("PIDTYPE_PID", 0), ("PIDTYPE_TGID", 1), ("PIDTYPE_PGID", 2)],
    );
    b.enumeration("wide", 8, &[("HUGE_VALUE", 1 << 40)]);

    let rlimit = b.structure("rlimit", &[("rlim_cur", long), ("rlim_max", long)]);
    let limits = b.array(rlimit, 16);
    let signal = b.structure("signal_struct", &[("nr_threads", int), ("rlim", limits)]);
    let signal_pointer = b.pointer(signal);

    let task = b.declare("task_struct");
    let task_pointer = b.pointer(task);
    let in_union = b.structure("", &[("utime", long), ("stime", long)]);
    let anonymous = b.union("", &[("", in_union), ("times", long)]);
    let numbers = b.array(unsigned, 4);
    let user_char = b.type_tag("user", char);
    let user_text = b.pointer(user_char);
    let percpu_int = b.type_tag("percpu", signal);
    let percpu_pointer = b.pointer(percpu_int);
    let bits = |name, ty, bit_offset, bits| Placed {
        name,
        ty,
        bit_offset,
        bits: Some(bits),
    };
    let flags = b.struct_at_offsets(
        "task_flags",
        8,
        &[
            bits("low", unsigned, 0, 3),
            bits("mid", unsigned, 3, 10),
            bits("sign", int, 32, 5),
            bits("last", unsigned, 63, 1),
        ],
    );
    let back = b.proto_pointer(int);
    let task_pointer_pointer = b.pointer(task_pointer);
    b.define(
        task,
        &[
            ("__state", unsigned),
            ("pid", pid_t),
            ("tgid", pid_t),
            ("comm", comm),
            ("signal", signal_pointer),
            ("parent", task_pointer),
            ("", anonymous),
            ("flags", flags),
            ("numbers", numbers),
            ("kind", state),
            ("in_iowait", boolean),
            ("arg_start", user_text),
            ("percpu", percpu_pointer),
            ("callback", back),
            ("weight", double),
            ("children", task_pointer_pointer),
        ],
    );
    let name_pointer = b.pointer(char);
    let qstr = b.structure("qstr", &[("len", unsigned), ("name", name_pointer)]);
    let dentry = b.structure("dentry", &[("d_name", qstr)]);
    let dentry_pointer = b.pointer(dentry);
    let path = b.structure("path", &[("mnt", long), ("dentry", dentry_pointer)]);
    let flexible = b.array(char, 0);
    let file = b.structure(
        "file",
        &[
            ("f_mode", unsigned),
            ("f_path", path),
            ("f_pos", long),
            ("f_kind", short),
            ("tail", flexible),
        ],
    );
    let file_pointer = b.pointer(file);
    let btf = Arc::new(Btf::parse(b.finish()).unwrap());
    Types {
        btf,
        task_pointer,
        file_pointer,
        user_text,
        state,
    }
}

trait ProtoPointer {
    fn proto_pointer(&mut self, ret: TypeId) -> TypeId;
}

impl ProtoPointer for Builder {
    fn proto_pointer(&mut self, ret: TypeId) -> TypeId {
        let proto = self.func_proto(ret, &[]);
        self.pointer(proto)
    }
}

fn field(name: &str, ty: ValueType, source: Source) -> EventField {
    EventField {
        name: name.into(),
        ty,
        source,
        recorded: true,
    }
}

fn integer(size: u8, signed: bool) -> ValueType {
    ValueType::Integer {
        size,
        signed,
        base: Base::Decimal,
    }
}

fn context(name: &str, program: ProgramKind, types: &Types) -> Context {
    Context {
        name: name.into(),
        function: None,
        program,
        number: EventNumber::Constant(1),
        selector: None,
        members: [].into(),
        fields: vec![],
        parameters: None,
        arguments: vec![],
        return_value: None,
        registers: vec![],
        remarks: vec![],
        pair: None,
        types: Some(types.btf.clone()),
        features: Features {
            current_task_btf: true,
            user_registers: Some(kestrel_compiler::context::UserRegisters {
                ip: 128,
                sp: 152,
                bp: 32,
            }),
            probe_read_kernel: true,
            func_ip: true,
            ..Features::default()
        },
        direct_loads: true,
        space: Space::Kernel,
        seq_file: None,
        preemptible: false,
        dispatchers: kestrel_compiler::context::Dispatchers::default(),
    }
}

/// The event that golden files call `name`.
pub(crate) fn by_name(name: &str) -> Context {
    match name {
        "switch" => switch(),
        "indirect" => Context {
            direct_loads: false,
            ..switch()
        },
        "elements" => elements(),
        "broken" => broken_rules(),
        "entry" => entry(),
        "kprobe" => kprobe(),
        "odd" => odd(),
        "untyped" => untyped(),
        "wide" => wide(),
        "kretprobe" => kretprobe(),
        other => panic!("unknown event {other}"),
    }
}

/// A walk over tasks: what it is about comes first, then a task and a number.
pub(crate) fn iterator() -> Context {
    let types = types();
    let argument = |index| Source::Argument { index, trusted: true };
    Context {
        fields: vec![
            field("task", ValueType::Btf(types.task_pointer), argument(1)),
            field("fd", integer(4, false), argument(2)),
        ],
        ..context("iter:task", ProgramKind::Iterator, &types)
    }
}

/// `sched:sched_switch` by `tp_btf`: three arguments, and fields by rules.
pub(crate) fn switch() -> Context {
    let t = types();
    let mut c = context("sched:sched_switch", ProgramKind::TracingTracepoint, &t);
    let argument = |index| Source::Argument { index, trusted: true };
    let rule = |text: &str| Source::Expression(text.into());
    let hidden = |f: EventField| EventField { recorded: false, ..f };
    c.fields = vec![
        hidden(field("preempt", ValueType::Bool, argument(0))),
        hidden(field("prev", ValueType::Btf(t.task_pointer), argument(1))),
        hidden(field("next", ValueType::Btf(t.task_pointer), argument(2))),
        field("prev_comm", ValueType::CharArray { size: 16 }, rule("prev->comm")),
        field("prev_pid", integer(4, true), rule("prev->pid")),
        field(
            "prev_state",
            ValueType::Flags {
                size: 8,
                names: Arc::from([(1, "S".to_owned()), (2, "D".to_owned())]),
            },
            rule("preempt ? 0x100 : prev->__state & 0xff"),
        ),
        hidden(field(
            "next_prio",
            integer(8, false),
            Source::Argument {
                index: 3,
                trusted: false,
            },
        )),
        field("next_prio", integer(4, true), rule("next_prio + 120")),
        field(
            "next_comm",
            ValueType::CharArray { size: 16 },
            rule("args.next->comm"),
        ),
        field("next_pid", integer(4, true), rule("next->pid")),
    ];
    c
}

/// The same, where the kernel has another name for a member, and a rule that needs itself.
pub(crate) fn broken_rules() -> Context {
    let mut c = switch();
    c.fields.push(field(
        "gone",
        integer(4, true),
        Source::Expression("prev->gone".into()),
    ));
    c.fields.push(field(
        "circle",
        integer(4, true),
        Source::Expression("circle + 1".into()),
    ));
    c.fields.push(field(
        "text",
        integer(4, true),
        Source::Expression("prev->comm".into()),
    ));
    c
}

/// The same with a rule that gives an array element by element.
pub(crate) fn elements() -> Context {
    let mut c = switch();
    let two = ValueType::Array {
        element: Box::new(integer(4, false)),
        count: 2,
    };
    let rule = Source::Expression("(prev->__state, next->__state)".into());
    c.fields.retain(|f| !f.recorded);
    c.fields.push(field("states", two, rule));
    c
}

/// A classic tracepoint: the formatted entry.
pub(crate) fn entry() -> Context {
    let t = types();
    let mut c = context("sched:sched_process_exec", ProgramKind::Tracepoint, &t);
    c.direct_loads = false;
    let at = |offset, size| Source::Context { offset, size };
    c.fields = vec![
        field("filename", ValueType::String, Source::DataLocation { offset: 8 }),
        field("pid", integer(4, true), at(12, 4)),
        field("kind", ValueType::Btf(t.state), at(16, 4)),
        field(
            "reason",
            ValueType::Enumeration {
                size: 1,
                signed: false,
                names: Arc::from([(0, "NONE".to_owned()), (1, "OOM".to_owned())]),
            },
            at(20, 1),
        ),
        field(
            "comm",
            ValueType::CharArray { size: 16 },
            Source::ContextArray {
                offset: 24,
                bytes: 16,
            },
        ),
        field(
            "regs",
            ValueType::Array {
                element: Box::new(integer(8, false)),
                count: 6,
            },
            Source::ContextArray {
                offset: 40,
                bytes: 48,
            },
        ),
        field("ip", ValueType::Pointer { user: false }, at(88, 8)),
        field("name", ValueType::CString { user: true }, at(96, 8)),
    ];
    c
}

/// `kprobe:vfs_read`.
pub(crate) fn kprobe() -> Context {
    let t = types();
    let mut c = context("kprobe:vfs_read", ProgramKind::Kprobe, &t);
    c.function = Some("vfs_read".into());
    let register = |offset| Source::Register { offset };
    c.arguments = [112, 104, 96, 88, 72, 64].map(register).to_vec();
    c.fields = vec![
        field("file", ValueType::Btf(t.file_pointer), register(112)),
        field("buf", ValueType::Btf(t.user_text), register(104)),
        field("count", integer(8, false), register(96)),
        field("flags", integer(2, false), register(88)),
    ];
    c
}

/// `kprobe:vfs_read` with arguments of types that have no values here.
pub(crate) fn odd() -> Context {
    let mut c = kprobe();
    let register = |offset| Source::Register { offset };
    c.fields
        .insert(1, field("nothing", ValueType::Btf(TypeId::VOID), register(8)));
    c.fields
        .insert(2, field("unknown", ValueType::Btf(TypeId(9999)), register(16)));
    c
}

/// A classic entry whose fields together do not fit into a record.
pub(crate) fn wide() -> Context {
    let mut c = entry();
    let text = |offset| Source::ContextArray { offset, bytes: 2000 };
    c.fields
        .insert(1, field("first", ValueType::CharArray { size: 2000 }, text(200)));
    c.fields.insert(
        2,
        field("larger", ValueType::CharArray { size: 2008 }, text(2200)),
    );
    c
}

/// `kprobe:vfs_read` on a kernel without types.
pub(crate) fn untyped() -> Context {
    let mut c = kprobe();
    c.types = None;
    c.fields = vec![];
    c
}

/// `kretprobe:vfs_read`.
pub(crate) fn kretprobe() -> Context {
    let mut c = kprobe();
    c.name = "kretprobe:vfs_read".into();
    c.program = ProgramKind::Kretprobe;
    c.fields = vec![];
    c.arguments = vec![];
    c.return_value = Some(field("retval", integer(8, true), Source::Register { offset: 80 }));
    c
}

/// Events that arbitrary texts are checked for: of each way in which a program gets its arguments.
pub(crate) fn arbitrary() -> Vec<Context> {
    vec![
        switch(),
        kprobe(),
        entry(),
        untyped(),
        kretprobe(),
        broken_rules(),
        odd(),
    ]
}
