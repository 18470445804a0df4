//! Test support for all crates: golden files, recordings made byte by byte, random programs, programs that keep pointers, terminals and a browser; nothing of it is shipped.
#![forbid(unsafe_code)]

pub mod browser;
mod golden;
pub mod live_and_replayed;
#[cfg(feature = "recordings")]
pub mod pages;
pub mod programs;
#[cfg(feature = "recordings")]
pub mod recording;
pub mod snoops;
pub mod terminal;

pub use golden::golden;
