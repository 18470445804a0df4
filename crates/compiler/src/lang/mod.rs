//! The language's surface: text to syntax tree with diagnostics; no types, no kernel.

pub mod ast;
