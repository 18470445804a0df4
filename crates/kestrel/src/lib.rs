//! Live tracing as a library: catalog, tables, handlers, buffers, plans and sessions; it never prints and parses no arguments.
#![forbid(unsafe_code)]

pub mod agent;
mod callbacks;
pub mod dump;
pub mod ftrace;
pub mod plan;
mod postprocess;
pub mod probe;
pub mod record;
pub mod recover;
pub mod replay;
pub mod script;
pub mod session;
pub mod stat;
pub mod syscalls;
mod system_names;
pub mod tail;
mod user_stack;
pub mod user_symbols;

/// Types of the kernel and of objects.
pub use kestrel_bpf::btf;
pub use kestrel_catalog::{Error, Result};
/// The parts around a handler in the kernel: rings, hooks, and the table files that ask for them.
pub use kestrel_hook::{buffer, hook, table};
/// Compiled BPF objects onto the kernel.
pub use kestrel_object as bpf;

/// The events of this kernel, and the ways of attaching to them.
pub use kestrel_catalog::{arch, attach, bounded_read, catalog, code, facts, symbols};

/// The kernel as a safe API, for programs that need more of it than a session.
pub use kestrel_kernel as kernel;

/// Diagnostics of the language about a text, and how they are shown.
pub mod language {
    pub use kestrel_compiler::builtin::names as builtin_names;
    pub use kestrel_compiler::failures::{DIVISION, ENDLESS, Failure, OUTSIDE, UNWINDING};
    pub use kestrel_compiler::lang::ast::Span;
    pub use kestrel_compiler::lang::diag::{
        Diagnostic, Style, nearest, position, render, render_as_bpftrace,
    };
    pub use kestrel_compiler::lang::{config, expand, format, library, number_of};
}
