//! Macros that every script has, written in the language itself.

/// The files: what people know them as, and what they hold.
pub const TEXTS: &[(&str, &str)] = &[("<library>", include_str!("base.bt"))];
