//! Test support for all crates: golden files, random programs, terminals and a browser; nothing of it is shipped.
#![forbid(unsafe_code)]

pub mod browser;
mod golden;
pub mod programs;
pub mod terminal;

pub use golden::golden;
