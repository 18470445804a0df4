//! Built-ins that steer the session: its tables, its buffers.

pub(super) mod freeze;
pub(super) mod override_return;
pub(super) mod reset;
pub(super) mod thaw;
pub(super) mod to;
pub(super) mod use_buffer;
pub(super) mod use_table;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &to::TO,
    &use_table::USE_TABLE,
    &use_buffer::USE_BUFFER,
    &freeze::FREEZE,
    &thaw::THAW,
    &reset::RESET,
    &override_return::OVERRIDE,
];
