//! The language's surface: text to syntax tree with diagnostics; no types, no kernel.

pub mod ast;
pub mod config;
pub mod diag;
pub mod expand;
mod expansion;
pub mod format;
pub mod glob;
mod lexer;
pub mod library;
mod parse;
pub mod source;
pub mod unstable;
pub mod walk;

pub use lexer::number_of;
pub(crate) use parse::settled_kind;
pub use parse::{
    is_type_word, parse_events, parse_expression, parse_probes, parse_script, parse_table_file,
    without_comments,
};
