//! Macros that every script has, written in the language itself.

/// The files of the library: the name that messages show, and the text.
pub const TEXTS: &[(&str, &str)] = &[("<library>", include_str!("base.bt"))];
