//! Built-ins that are plain numbers.

pub(super) mod bswap;
pub(super) mod cpu;
pub(super) mod kfunc_allowed;
pub(super) mod kfunc_exist;
pub(super) mod ncpus;
pub(super) mod numaid;
pub(super) mod rand;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &bswap::BSWAP,
    &cpu::CPU,
    &numaid::NUMAID,
    &rand::RAND,
    &ncpus::NCPUS,
    &kfunc_exist::KFUNC_EXIST,
    &kfunc_allowed::KFUNC_ALLOWED,
];
