//! BPF as data: instructions, assembler, text form, interpreter, BTF and objects; never the kernel, never tracing.
#![forbid(unsafe_code)]

pub mod asm;
pub mod btf;
pub mod code;
pub mod either;
mod error;
mod far;
pub mod helper;
pub mod insn;
pub mod interp;
pub mod isa;
pub mod object;
pub mod text;
pub mod verifier_log;

pub use error::Error;
