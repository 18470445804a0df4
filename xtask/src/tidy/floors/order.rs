//! The order of each crate's rooms, and the circles of files that are still too large.

/// The rooms of a crate, the lowest first.
pub(super) struct Order {
    pub(super) sources: &'static str,
    pub(super) rooms: &'static [&'static str],
    /// Tables of rows, one file each: lower rooms look rows up, and a row says with their types what it does.
    pub(super) tables: &'static [&'static str],
    /// Rooms whose files and folders do not import each other: what two of them need lies in a lower room.
    pub(super) apart: &'static [&'static str],
}

pub(super) const ORDERS: &[Order] = &[
    Order {
        sources: "crates/kestrel/src/",
        rooms: &[
            "plan",
            "postprocess",
            "session",
            "dump",
            "agent",
            "live",
            "record",
            "probe",
            "recover",
            "watch",
        ],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/catalog/src/",
        rooms: &[
            "waiting",
            "verifier",
            "error",
            "bounded_read",
            "arch",
            "symbols",
            "executable",
            "facts",
            "code",
            "attach",
            "catalog",
        ],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/hook/src/",
        rooms: &["buffer", "hook", "table"],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/object/src/",
        rooms: &[
            "settings", "value", "kconfig", "map", "kernel", "attach", "opened", "refusal", "load",
            "running", "typed", "output", "handler",
        ],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/kernel/src/",
        rooms: &[
            "error",
            "host",
            "procfs",
            "mmap",
            "perf",
            "bpf",
            "barrier",
            "process",
            "tracefs",
            "kallsyms",
            "index",
            "btf",
            "feature",
            "kcore",
            "kprobes",
            "mark",
            "preemption",
            "privilege",
        ],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/trace/src/",
        rooms: &[
            "error",
            "packet",
            "layout",
            "action",
            "event",
            "value",
            "record",
            "symbol",
            "process",
            "print",
            "info",
            "summary",
            "files",
            "decode",
            "aggregate",
            "ctf",
            "image",
            "recover",
            "export",
            "analyze",
            "report",
        ],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/bpf/src/",
        rooms: &[
            "helper",
            "insn",
            "isa",
            "code",
            "error",
            "far",
            "asm",
            "btf",
            "text",
            "interp",
            "object",
            "verifier_log",
        ],
        tables: &[],
        apart: &[],
    },
    Order {
        sources: "crates/compiler/src/",
        rooms: &[
            "lang", "ir", "map", "context", "pass", "check", "sink", "error", "codegen", "program", "builtin",
        ],
        tables: &["builtin"],
        apart: &[],
    },
    Order {
        sources: "crates/cli/src/",
        rooms: &[
            "style",
            "screen",
            "exit",
            "output",
            "progress",
            "arguments",
            "sessions",
            "actor",
            "selection",
            "foreground",
            "command",
        ],
        tables: &[],
        apart: &["command"],
    },
];

/// The largest circle of files that needs no exception.
pub(super) const CIRCLE: usize = 3;

/// Larger circles: the folder that holds all of one's files, and how many these are. These numbers only ever get smaller.
pub(super) const CIRCLES: &[(&str, usize, &str)] = &[
    (
        "crates/kestrel/src/session",
        10,
        "a change of a pinned session and its clients know each other",
    ),
    (
        "crates/kestrel/src/session/named",
        7,
        "the parts of one recursive reader",
    ),
];
