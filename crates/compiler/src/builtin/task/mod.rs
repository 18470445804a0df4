//! Built-ins about the task that runs.

pub(super) mod cgroup;
pub(super) mod cgroupid;
pub(super) mod comm;
pub(super) mod curtask;
pub(super) mod gid;
mod id_pair;
pub(super) mod is_target;
pub(super) mod pid;
pub(super) mod signal;
pub(super) mod signal_thread;
pub(super) mod tid;
pub(super) mod uid;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &pid::PID,
    &tid::TID,
    &uid::UID,
    &gid::GID,
    &comm::COMM,
    &curtask::CURTASK,
    &cgroup::CGROUP,
    &signal::SIGNAL,
    &is_target::IS_TARGET,
    &cgroupid::CGROUPID,
    &signal_thread::SIGNAL_THREAD,
];
