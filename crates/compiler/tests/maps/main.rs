//! Maps from text to the printed line: handlers are compiled, run in the interpreter on several processors, and what the maps hold is read as
//! the recorder reads it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[allow(dead_code, reason = "the syntax tree is shown by another test")]
#[path = "../dump/mod.rs"]
mod dump;
#[path = "../kernel/mod.rs"]
mod kernel;
#[path = "../support/maps.rs"]
mod sharing;
#[path = "../support/mod.rs"]
mod support;

mod any_type;
mod clearing;
mod effects;
mod histograms;
mod keys;
mod later;
mod meaning;
mod pointers;
mod room;
mod series;
mod unwound;
