//! Waiting for events: epoll, eventfd, inotify.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::Poll,
        flags(rows!(bit general [
            POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDNORM, POLLRDBAND, POLLWRNORM, POLLWRBAND, POLLMSG, POLLREMOVE, POLLRDHUP,
        ])),
    ),
    (
        Meaning::EpollEvents,
        flags(rows!(bit general [
            EPOLLIN, EPOLLPRI, EPOLLOUT, EPOLLRDNORM, EPOLLRDBAND, EPOLLWRNORM, EPOLLWRBAND, EPOLLMSG, EPOLLERR, EPOLLHUP, EPOLLRDHUP, EPOLLEXCLUSIVE,
            EPOLLWAKEUP, EPOLLONESHOT, EPOLLET,
        ])),
    ),
    (
        Meaning::Epoll,
        names(rows!(whole general [EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD])),
    ),
    (Meaning::EpollCreate, flags(rows!(bit general [EPOLL_CLOEXEC]))),
    (
        Meaning::EventFd,
        flags(rows!(bit general [EFD_SEMAPHORE, EFD_CLOEXEC, EFD_NONBLOCK])),
    ),
    (
        Meaning::Inotify,
        flags(rows!(bit general [
            IN_ALL_EVENTS, IN_ACCESS, IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_CLOSE_NOWRITE, IN_OPEN, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE,
            IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF, IN_ONLYDIR, IN_DONT_FOLLOW, IN_EXCL_UNLINK, IN_MASK_CREATE, IN_MASK_ADD, IN_ISDIR, IN_ONESHOT,
        ])),
    ),
    (
        Meaning::InotifyInit,
        flags(rows!(bit general [IN_CLOEXEC, IN_NONBLOCK])),
    ),
];
