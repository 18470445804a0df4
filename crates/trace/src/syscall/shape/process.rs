//! Processes: how they are made, limited and counted; the names of the system.

use super::member::Show::{AnyPointer, Inside, Limit, Named, Pointer, Signed, Text, Unsigned};
use super::member::structure;
use super::member::{Member, Structure};
use super::time;
use crate::syscall::Meaning;

/// `struct clone_args`.
pub static CLONE: Structure = structure!(general::clone_args [
    flags = flags: Named(Meaning::Namespace), pidfd = pidfd: AnyPointer, child_tid = child_tid: AnyPointer, parent_tid = parent_tid: AnyPointer,
    exit_signal = exit_signal: Named(Meaning::Signal), stack = stack: Pointer, stack_size = stack_size: Unsigned, tls = tls: AnyPointer,
]);
/// `struct rlimit`.
pub static LIMIT: Structure =
    structure!(general::rlimit64 [rlim_cur = rlim_cur: Limit, rlim_max = rlim_max: Limit,]);
/// `struct rusage`.
pub static USAGE: Structure = structure!(general::rusage [
    ru_utime = ru_utime: Inside(&time::TIME_OLD), ru_stime = ru_stime: Inside(&time::TIME_OLD),
] "…");
/// `struct utsname`, as far as it is shown.
pub static NAMES: Structure = Structure {
    size: 195,
    members: &[
        Member {
            name: "sysname",
            at: 0,
            size: 65,
            show: Text,
        },
        Member {
            name: "nodename",
            at: 65,
            size: 65,
            show: Text,
        },
    ],
    more: true,
};
/// `struct sched_param`.
pub static SCHEDULING: Structure = Structure {
    size: 4,
    members: &[Member {
        name: "sched_priority",
        at: 0,
        size: 4,
        show: Signed,
    }],
    more: false,
};

pub(super) const ALL: &[&Structure] = &[&CLONE, &LIMIT, &USAGE, &NAMES, &SCHEDULING];
