//! Built-ins that take stacks.

mod copy;
mod depth;
pub(super) mod kstack;
mod unwound;
pub(super) mod ustack;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &kstack::KSTACK,
    &ustack::USTACK,
    &copy::USTACK_COPY,
    &unwound::DW_USTACK,
];
