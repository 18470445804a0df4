//! Waiting for events.

use super::member::Show::{EventData, Inside, Named, Pointer, Signed, Unsigned};
use super::member::Structure;
use super::member::structure;
use crate::syscall::Meaning;

/// `struct pollfd`.
pub static POLL: Structure = structure!(general::pollfd [
    fd = fd: Signed, events = events: Named(Meaning::Poll), revents = revents: Named(Meaning::Poll),
]);
/// `struct epoll_event`.
pub static EPOLL_EVENT: Structure =
    structure!(general::epoll_event [events = events: Named(Meaning::EpollEvents), data = data: EventData,]);

/// `struct io_sqring_offsets`.
static SUBMISSION: Structure = structure!(io_uring::io_sqring_offsets [
    head = head: Unsigned, tail = tail: Unsigned, ring_mask = ring_mask: Unsigned, ring_entries = ring_entries: Unsigned, flags = flags: Unsigned,
    dropped = dropped: Unsigned, array = array: Unsigned, user_addr = user_addr: Pointer,
]);
/// `struct io_cqring_offsets`.
static COMPLETION: Structure = structure!(io_uring::io_cqring_offsets [
    head = head: Unsigned, tail = tail: Unsigned, ring_mask = ring_mask: Unsigned, ring_entries = ring_entries: Unsigned, overflow = overflow: Unsigned,
    cqes = cqes: Unsigned, flags = flags: Unsigned, user_addr = user_addr: Pointer,
]);
/// `struct io_uring_params`.
pub static RING: Structure = structure!(io_uring::io_uring_params [
    flags = flags: Named(Meaning::RingSetup), sq_thread_cpu = sq_thread_cpu: Unsigned, sq_thread_idle = sq_thread_idle: Unsigned,
    sq_entries = sq_entries: Unsigned, cq_entries = cq_entries: Unsigned, features = features: Named(Meaning::RingFeatures),
    sq_off = sq_off: Inside(&SUBMISSION), cq_off = cq_off: Inside(&COMPLETION),
]);

#[cfg(test)]
pub(super) const ALL: &[&Structure] = &[&POLL, &EPOLL_EVENT, &SUBMISSION, &COMPLETION, &RING];
