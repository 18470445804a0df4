//! Test support for all crates: golden files and terminals; nothing of it is shipped.
#![forbid(unsafe_code)]

mod golden;
pub mod terminal;

pub use golden::golden;
