//! Built-ins that take stacks.

mod depth;
pub(super) mod kstack;
pub(super) mod ustack;

use super::row::Builtin;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&kstack::KSTACK, &ustack::USTACK];
