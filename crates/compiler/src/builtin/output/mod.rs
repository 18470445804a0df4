//! Built-ins that write.

pub(super) mod record;

use super::row::Builtin;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&record::RECORD];
