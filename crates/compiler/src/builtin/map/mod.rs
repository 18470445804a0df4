//! Built-ins about maps as such.

pub(super) mod clear;
pub(super) mod delete;
pub(super) mod has_key;
pub(super) mod len;
mod place;
pub(super) mod zero;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &delete::DELETE,
    &clear::CLEAR,
    &zero::ZERO,
    &has_key::HAS_KEY,
    &len::LEN,
];
