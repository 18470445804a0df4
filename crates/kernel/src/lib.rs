//! The running kernel as a safe API: bpf(2), perf events, tracefs, procfs, symbols; the only crate with unsafe code, no policy.
#![allow(
    unsafe_code,
    reason = "system calls and memory maps live here and nowhere else; each block says why it is sound"
)]

pub mod barrier;
pub mod bpf;
pub mod btf;
pub mod error;
pub mod feature;
pub mod host;
pub mod index;
pub mod kallsyms;
pub mod kcore;
pub mod kprobes;
pub mod mark;
pub mod mmap;
pub mod perf;
pub mod preemption;
pub mod privilege;
pub mod process;
pub mod procfs;
pub mod readable;
pub mod tracefs;

pub use error::{Errno, Error, Interface, Result};
pub use host::Host;
