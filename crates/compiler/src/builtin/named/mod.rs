//! Built-ins that give values which the reader shows by a name.

pub(super) mod cgroup_path;
pub(super) mod macaddr;
mod made;
pub(super) mod ntop;
pub(super) mod pton;
pub(super) mod signal_name;
pub(super) mod strerror;
pub(super) mod strftime;
pub(super) mod syscall_name;
pub(super) mod username;
pub(super) mod usym;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &cgroup_path::CGROUP_PATH,
    &macaddr::MACADDR,
    &ntop::NTOP,
    &pton::PTON,
    &signal_name::SIGNAL_NAME,
    &strerror::STRERROR,
    &strftime::STRFTIME,
    &syscall_name::SYSCALL_NAME,
    &username::USERNAME,
    &usym::USYM,
];
