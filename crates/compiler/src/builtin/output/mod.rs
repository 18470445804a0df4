//! Built-ins that print or record.

pub(super) mod cat;
pub(super) mod debugf;
pub(super) mod errorf;
pub(super) mod exit;
pub(super) mod fail;
pub(super) mod join;
pub(super) mod print;
pub(super) mod printf;
pub(super) mod record;
pub(super) mod skboutput;
pub(super) mod system;
pub(super) mod unwatch;
pub(super) mod warnf;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &record::RECORD,
    &printf::PRINTF,
    &print::PRINT,
    &exit::EXIT,
    &cat::CAT,
    &system::SYSTEM,
    &join::JOIN,
    &debugf::DEBUGF,
    &errorf::ERRORF,
    &fail::FAIL,
    &skboutput::SKBOUTPUT,
    &unwatch::UNWATCH,
    &warnf::WARNF,
];
