//! From bpftrace-language text to BPF and record layouts: pure, so that every program can be made and run without a kernel.
#![forbid(unsafe_code)]

pub mod builtin;
pub mod check;
pub mod context;
pub mod lang;
