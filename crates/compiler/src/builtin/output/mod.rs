//! Built-ins that write.

pub(super) mod exit;
pub(super) mod print;
pub(super) mod printf;
pub(super) mod record;

use super::row::Builtin;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &record::RECORD,
    &printf::PRINTF,
    &print::PRINT,
    &exit::EXIT,
];
