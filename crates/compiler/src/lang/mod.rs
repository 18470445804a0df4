//! The language's surface: text to syntax tree with diagnostics; no types, no kernel.

pub mod ast;
pub mod diag;
pub mod glob;
mod lexer;
mod parse;

pub use parse::{parse_events, parse_expression, parse_probes, parse_script};
