//! Built-ins about the event that fired.

pub(super) mod arg;
pub(super) mod common_flags;
pub(super) mod common_preempt_count;
pub(super) mod ctx;
pub(super) mod entry;
pub(super) mod func;
pub(super) mod probe;
pub(super) mod probetype;
pub(super) mod reg;
pub(super) mod regs;
pub(super) mod retval;
pub(super) mod usermode;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &arg::ARG,
    &ctx::CTX,
    &usermode::USERMODE,
    &retval::RETVAL,
    &reg::REG,
    &regs::REGS,
    &entry::ENTRY,
    &func::FUNC,
    &probe::PROBE,
    &probetype::PROBETYPE,
    &common_flags::COMMON_FLAGS,
    &common_preempt_count::COMMON_PREEMPT_COUNT,
];
