//! Structures of signals: actions, stacks, events of notification.

use super::member::Show::{AnyPointer, Handler, Named, Pointer, SignalData, Signals, Unsigned};
use super::member::structure;
use super::member::{Member, Structure};
use crate::syscall::Meaning;

/// The kernel's `struct sigaction`.
pub static ACTION: Structure = structure!(general::kernel_sigaction [
    sa_handler = sa_handler_kernel: Handler, sa_mask = sa_mask: Signals, sa_flags = sa_flags: Named(Meaning::ActionFlags),
    sa_restorer = sa_restorer: AnyPointer,
]);
/// `stack_t`.
pub static ALTERNATE: Structure = structure!(general::sigaltstack [
    ss_sp = ss_sp: Pointer, ss_flags = ss_flags: Named(Meaning::SignalStack), ss_size = ss_size: Unsigned,
]);

/// `struct sigevent`, without what SIGEV_THREAD_ID has.
pub static EVENT: Structure = Structure {
    size: 16,
    members: &[
        Member {
            name: "sigev_value",
            at: 0,
            size: 8,
            show: SignalData,
        },
        Member {
            name: "sigev_signo",
            at: 8,
            size: 4,
            show: Named(Meaning::Signal),
        },
        Member {
            name: "sigev_notify",
            at: 12,
            size: 4,
            show: Named(Meaning::Notify),
        },
    ],
    more: false,
};

#[cfg(test)]
pub(super) const ALL: &[&Structure] = &[&ACTION, &ALTERNATE, &EVENT];
