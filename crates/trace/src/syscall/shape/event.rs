//! Waiting for events.

use super::member::Show::{EventData, Named, Signed};
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

pub(super) const ALL: &[&Structure] = &[&POLL, &EPOLL_EVENT];
