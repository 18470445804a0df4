//! Built-ins that read texts.

pub(super) mod buf;
pub(super) mod glob;
pub(super) mod kstr;
mod read;
pub(super) mod str;

use super::row::Builtin;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&str::STR, &kstr::KSTR, &glob::GLOB, &buf::BUF];
