//! What signals do.

use super::member::Show::{Handler, Named, Pointer, Signals, Unsigned};
use super::member::Structure;
use super::member::structure;
use crate::syscall::Meaning;

/// The kernel's `struct sigaction`.
pub static ACTION: Structure = structure!(general::kernel_sigaction [
    sa_handler = sa_handler_kernel: Handler, sa_mask = sa_mask: Signals, sa_flags = sa_flags: Named(Meaning::ActionFlags),
    sa_restorer = sa_restorer: Pointer,
]);
/// `stack_t`.
pub static ALTERNATE: Structure = structure!(general::sigaltstack [
    ss_sp = ss_sp: Pointer, ss_flags = ss_flags: Named(Meaning::SignalStack), ss_size = ss_size: Unsigned,
]);

pub(super) const ALL: &[&Structure] = &[&ACTION, &ALTERNATE];
