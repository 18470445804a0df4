//! Test support for all crates: golden files and miniature kernels; nothing of it is shipped.
#![forbid(unsafe_code)]

mod golden;

pub use golden::golden;
