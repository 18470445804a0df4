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
    (
        Meaning::RingSetup,
        flags(rows!(bit io_uring [
            IORING_SETUP_IOPOLL, IORING_SETUP_SQPOLL, IORING_SETUP_SQ_AFF, IORING_SETUP_CQSIZE, IORING_SETUP_CLAMP, IORING_SETUP_ATTACH_WQ,
            IORING_SETUP_R_DISABLED, IORING_SETUP_SUBMIT_ALL, IORING_SETUP_COOP_TASKRUN, IORING_SETUP_TASKRUN_FLAG, IORING_SETUP_SQE128,
            IORING_SETUP_CQE32, IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_NO_MMAP, IORING_SETUP_REGISTERED_FD_ONLY,
            IORING_SETUP_NO_SQARRAY, IORING_SETUP_HYBRID_IOPOLL,
        ])),
    ),
    (
        Meaning::RingEnter,
        flags(rows!(bit io_uring [
            IORING_ENTER_GETEVENTS, IORING_ENTER_SQ_WAKEUP, IORING_ENTER_SQ_WAIT, IORING_ENTER_EXT_ARG, IORING_ENTER_REGISTERED_RING,
            IORING_ENTER_ABS_TIMER, IORING_ENTER_EXT_ARG_REG, IORING_ENTER_NO_IOWAIT,
        ])),
    ),
    (
        Meaning::RingFeatures,
        flags(rows!(bit io_uring [
            IORING_FEAT_SINGLE_MMAP, IORING_FEAT_NODROP, IORING_FEAT_SUBMIT_STABLE, IORING_FEAT_RW_CUR_POS, IORING_FEAT_CUR_PERSONALITY,
            IORING_FEAT_FAST_POLL, IORING_FEAT_POLL_32BITS, IORING_FEAT_SQPOLL_NONFIXED, IORING_FEAT_EXT_ARG, IORING_FEAT_NATIVE_WORKERS,
            IORING_FEAT_RSRC_TAGS, IORING_FEAT_CQE_SKIP, IORING_FEAT_LINKED_FILE, IORING_FEAT_REG_REG_RING, IORING_FEAT_RECVSEND_BUNDLE,
            IORING_FEAT_MIN_TIMEOUT, IORING_FEAT_RW_ATTR, IORING_FEAT_NO_IOWAIT,
        ])),
    ),
];
