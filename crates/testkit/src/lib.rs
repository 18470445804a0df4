//! Test support for all crates: golden files, random programs and terminals; nothing of it is shipped.
#![forbid(unsafe_code)]

mod golden;
pub mod programs;
pub mod terminal;

pub use golden::golden;
