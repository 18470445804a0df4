//! From bpftrace-language text to BPF and record layouts: pure, so that every program can be made and run without a kernel.
#![forbid(unsafe_code)]

pub mod check;
pub mod codegen;
pub mod context;
pub mod error;
pub mod ir;
pub mod lang;
pub mod pass;
pub mod sink;
