//! BPF as data: instructions, assembler, text form, interpreter, BTF and objects; never the kernel, never tracing.
#![forbid(unsafe_code)]

pub mod btf;
pub mod code;
pub mod insn;
