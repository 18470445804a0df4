//! Arguments that point to structures: a table of calls and arguments, what lies there, how many, and when it can be read.

use super::shape::{self, ADDRESS, BUFFER, COUNTED, MAX, Shape, Show, Width};
use super::{ArgumentKind, Meaning};

/// Number of elements where an argument points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementCount {
    /// One element.
    One,
    /// Two elements.
    Two,
    /// The number of elements is the argument at this place.
    Argument(u8),
    /// The number of elements is what the call returns.
    Returned,
    /// The number of bytes is the argument at this place.
    Bytes(u8),
    /// The number of bytes is where the argument at this place points.
    Behind(u8),
}

/// The side of a call on which memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// At the entry: the call is given it.
    Before,
    /// At the return: the call has filled it.
    After,
    /// Before and after the call.
    Both,
}

/// Memory that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointed {
    /// The shape of the memory.
    pub shape: Shape,
    /// The number of elements.
    pub many: ElementCount,
    /// When it is read.
    pub when: When,
}

/// Length of what is read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Length {
    /// A fixed number.
    Fixed(u32),
    /// The argument at this place, times this.
    Argument(u8, u32),
    /// The return value of the call, times this.
    Returned(u32),
    /// The number that the argument at this place points to.
    Behind(u8),
    /// The memory of ioctl(2)'s request at this place: the modes of a terminal, or 8 bytes.
    Request(u8),
    /// The memory of the command of a 32-bit program's fcntl(2) at this place: locks with numbers of 32 bits, or of 64.
    Lock(u8),
}

/// Reading of the memory behind an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// When it is read: at the entry, the return, or both.
    pub when: When,
    /// The number of bytes.
    pub length: Length,
    /// The most bytes that are kept.
    pub most: u32,
}

const fn given(shape: Shape) -> ArgumentKind {
    of(shape, ElementCount::One, When::Before)
}

const fn filled(shape: Shape) -> ArgumentKind {
    of(shape, ElementCount::One, When::After)
}

const fn of(shape: Shape, many: ElementCount, when: When) -> ArgumentKind {
    ArgumentKind::Pointed(Pointed { shape, many, when })
}

const INT: Shape = Shape::Number(4, Show::Signed);
const OFFSET: Shape = Shape::Number(8, Show::Signed);
const LENGTH: Shape = Shape::Number(4, Show::Unsigned);
const TIME: Shape = Shape::Members(&shape::TIME);
const TIME_OLD: Shape = Shape::Members(&shape::TIME_OLD);
const INTERVAL: Shape = Shape::Members(&shape::INTERVAL);
const INTERVAL_OLD: Shape = Shape::Members(&shape::INTERVAL_OLD);
const STAT: Shape = Shape::Members(&shape::STAT);
const STATFS: Shape = Shape::Members(&shape::STATFS);
const POLL: Shape = Shape::Members(&shape::POLL);
const EPOLL: Shape = Shape::Members(&shape::EPOLL_EVENT);
const LIMIT: Shape = Shape::Members(&shape::LIMIT);
const USAGE: Shape = Shape::Members(&shape::USAGE);
const ACTION: Shape = Shape::Members(&shape::ACTION);
const ALTERNATE: Shape = Shape::Members(&shape::ALTERNATE);
const SCHEDULING: Shape = Shape::Members(&shape::SCHEDULING);
const SEMAPHORES: Shape = Shape::Members(&shape::SEMAPHORE);
const SIGNAL_INFO: Shape = Shape::SignalInfo(Wide);
const TEXTS_OF: Shape = Shape::Strings(Wide);
const TEXT_COUNT: Shape = Shape::TextCount(Wide);
const VECTORS: Shape = Shape::Vectors(Wide);
const MESSAGE: Shape = Shape::Message(Wide);
use Shape::{Pair, Processors, Signals, SocketAddress, WaitStatus};
use Width::{Narrow, Wide};

/// Call, argument, what lies there.
#[rustfmt::skip]
pub const POINTED: &[(&str, &str, ArgumentKind)] = &[
    // Times.
    ("nanosleep", "rqtp", given(TIME)),
    ("nanosleep", "rmtp", ArgumentKind::Remaining(&shape::TIME)),
    ("clock_nanosleep", "rqtp", given(TIME)),
    ("clock_nanosleep", "rmtp", ArgumentKind::Remaining(&shape::TIME)),
    ("clock_gettime", "tp", filled(TIME)),
    ("clock_getres", "tp", filled(TIME)),
    ("clock_settime", "tp", given(TIME)),
    ("gettimeofday", "tv", filled(TIME_OLD)),
    ("settimeofday", "tv", given(TIME_OLD)),
    ("utimensat", "utimes", of(TIME, ElementCount::Two, When::Before)),
    ("setitimer", "value", given(INTERVAL_OLD)),
    ("setitimer", "ovalue", filled(INTERVAL_OLD)),
    ("getitimer", "value", filled(INTERVAL_OLD)),
    ("timer_settime", "new_setting", given(INTERVAL)),
    ("timer_settime", "old_setting", filled(INTERVAL)),
    ("timer_gettime", "setting", filled(INTERVAL)),
    ("timer_create", "timer_event_spec", given(Shape::Members(&shape::EVENT))),
    ("timer_create", "created_timer_id", filled(INT)),
    ("adjtimex", "txc_p", filled(Shape::Members(&shape::CLOCK))),
    ("clock_adjtime", "utx", filled(Shape::Members(&shape::CLOCK))),
    ("times", "tbuf", filled(Shape::Members(&shape::TIMES))),
    ("utimes", "utimes", of(TIME_OLD, ElementCount::Two, When::Before)),
    ("futimesat", "utimes", of(TIME_OLD, ElementCount::Two, When::Before)),
    ("timerfd_settime", "utmr", given(INTERVAL)),
    ("timerfd_settime", "otmr", filled(INTERVAL)),
    ("timerfd_gettime", "otmr", filled(INTERVAL)),
    ("futex", "utime", given(TIME)),
    ("sched_rr_get_interval", "interval", filled(TIME)),
    // Files.
    ("newstat", "statbuf", filled(STAT)),
    ("newlstat", "statbuf", filled(STAT)),
    ("newfstat", "statbuf", filled(STAT)),
    ("newfstatat", "statbuf", filled(STAT)),
    ("statx", "buffer", filled(Shape::Members(&shape::STATX))),
    ("statfs", "buf", filled(STATFS)),
    ("fstatfs", "buf", filled(STATFS)),
    ("openat2", "how", of(Shape::Members(&shape::OPEN_HOW), ElementCount::Bytes(3), When::Before)),
    ("mount_setattr", "uattr", given(Shape::Members(&shape::MOUNT))),
    ("pipe", "fildes", filled(Pair)),
    ("pipe2", "fildes", filled(Pair)),
    ("fcntl", "arg", of(Shape::FileControl(Wide), ElementCount::One, When::Both)),
    ("ioctl", "arg", of(Shape::DeviceControl, ElementCount::One, When::Both)),
    ("sendfile64", "offset", given(OFFSET)),
    ("copy_file_range", "off_in", given(OFFSET)),
    ("copy_file_range", "off_out", given(OFFSET)),
    ("splice", "off_in", given(OFFSET)),
    ("splice", "off_out", given(OFFSET)),
    ("readv", "vec", of(VECTORS, ElementCount::Argument(2), When::After)),
    ("preadv", "vec", of(VECTORS, ElementCount::Argument(2), When::After)),
    ("preadv2", "vec", of(VECTORS, ElementCount::Argument(2), When::After)),
    ("writev", "vec", of(VECTORS, ElementCount::Argument(2), When::Before)),
    ("pwritev", "vec", of(VECTORS, ElementCount::Argument(2), When::Before)),
    ("pwritev2", "vec", of(VECTORS, ElementCount::Argument(2), When::Before)),
    // Waiting for events.
    ("poll", "ufds", of(POLL, ElementCount::Argument(1), When::Both)),
    ("ppoll", "ufds", of(POLL, ElementCount::Argument(1), When::Both)),
    ("ppoll", "tsp", given(TIME)),
    ("ppoll", "sigmask", given(Signals)),
    ("select", "inp", given(Shape::Descriptors)),
    ("select", "outp", given(Shape::Descriptors)),
    ("select", "exp", given(Shape::Descriptors)),
    ("pselect6", "inp", given(Shape::Descriptors)),
    ("pselect6", "outp", given(Shape::Descriptors)),
    ("pselect6", "exp", given(Shape::Descriptors)),
    ("select", "tvp", given(TIME_OLD)),
    ("pselect6", "tsp", given(TIME)),
    ("epoll_ctl", "event", given(EPOLL)),
    ("epoll_wait", "events", of(EPOLL, ElementCount::Returned, When::After)),
    ("epoll_pwait", "events", of(EPOLL, ElementCount::Returned, When::After)),
    ("epoll_pwait", "sigmask", given(Signals)),
    ("epoll_pwait2", "events", of(EPOLL, ElementCount::Returned, When::After)),
    ("epoll_pwait2", "timeout", given(TIME)),
    ("epoll_pwait2", "sigmask", given(Signals)),
    ("io_uring_setup", "params", filled(Shape::Members(&shape::RING))),
    // Sockets.
    ("connect", "uservaddr", of(SocketAddress, ElementCount::Bytes(2), When::Before)),
    ("bind", "umyaddr", of(SocketAddress, ElementCount::Bytes(2), When::Before)),
    ("sendto", "addr", of(SocketAddress, ElementCount::Bytes(5), When::Before)),
    ("recvfrom", "addr", of(SocketAddress, ElementCount::Behind(5), When::After)),
    ("recvfrom", "addr_len", of(LENGTH, ElementCount::One, When::Both)),
    ("accept", "upeer_sockaddr", of(SocketAddress, ElementCount::Behind(2), When::After)),
    ("accept", "upeer_addrlen", of(LENGTH, ElementCount::One, When::Both)),
    ("accept4", "upeer_sockaddr", of(SocketAddress, ElementCount::Behind(2), When::After)),
    ("accept4", "upeer_addrlen", of(LENGTH, ElementCount::One, When::Both)),
    ("getsockname", "usockaddr", of(SocketAddress, ElementCount::Behind(2), When::After)),
    ("getsockname", "usockaddr_len", of(LENGTH, ElementCount::One, When::Both)),
    ("getpeername", "usockaddr", of(SocketAddress, ElementCount::Behind(2), When::After)),
    ("getpeername", "usockaddr_len", of(LENGTH, ElementCount::One, When::Both)),
    ("socketpair", "usockvec", filled(Pair)),
    ("setsockopt", "optval", of(INT, ElementCount::Bytes(4), When::Before)),
    ("getsockopt", "optval", of(INT, ElementCount::Behind(4), When::After)),
    ("getsockopt", "optlen", of(LENGTH, ElementCount::One, When::Both)),
    ("sendmsg", "msg", of(MESSAGE, ElementCount::One, When::Before)),
    ("recvmsg", "msg", of(MESSAGE, ElementCount::One, When::After)),
    ("sendmmsg", "mmsg", of(Shape::Messages(Wide), ElementCount::One, When::Before)),
    ("recvmmsg", "mmsg", of(Shape::Messages(Wide), ElementCount::One, When::After)),
    ("semop", "tsops", of(SEMAPHORES, ElementCount::Argument(2), When::Before)),
    ("semtimedop", "tsops", of(SEMAPHORES, ElementCount::Argument(2), When::Before)),
    ("semtimedop", "timeout", given(TIME)),
    // Signals.
    ("rt_sigprocmask", "nset", given(Signals)),
    ("rt_sigprocmask", "oset", filled(Signals)),
    ("rt_sigaction", "act", given(ACTION)),
    ("rt_sigaction", "oact", filled(ACTION)),
    ("rt_sigpending", "uset", filled(Signals)),
    ("rt_sigsuspend", "unewset", given(Signals)),
    ("rt_sigtimedwait", "uthese", given(Signals)),
    ("rt_sigtimedwait", "uinfo", filled(SIGNAL_INFO)),
    ("rt_sigtimedwait", "uts", given(TIME)),
    ("rt_sigqueueinfo", "uinfo", given(SIGNAL_INFO)),
    ("rt_tgsigqueueinfo", "uinfo", given(SIGNAL_INFO)),
    ("pidfd_send_signal", "info", given(SIGNAL_INFO)),
    ("sigaltstack", "uss", given(ALTERNATE)),
    ("sigaltstack", "uoss", filled(ALTERNATE)),
    ("signalfd", "user_mask", given(Signals)),
    ("signalfd4", "user_mask", given(Signals)),
    // Processes.
    ("execve", "argv", of(TEXTS_OF, ElementCount::One, When::Before)),
    ("execve", "envp", of(TEXT_COUNT, ElementCount::One, When::Before)),
    ("execveat", "argv", of(TEXTS_OF, ElementCount::One, When::Before)),
    ("execveat", "envp", of(TEXT_COUNT, ElementCount::One, When::Before)),
    ("clone3", "uargs", of(Shape::Members(&shape::CLONE), ElementCount::Bytes(1), When::Before)),
    ("wait4", "stat_addr", filled(WaitStatus)),
    ("wait4", "ru", filled(USAGE)),
    ("waitid", "infop", filled(SIGNAL_INFO)),
    ("waitid", "ru", filled(USAGE)),
    ("getrusage", "ru", filled(USAGE)),
    ("getrlimit", "rlim", filled(LIMIT)),
    ("setrlimit", "rlim", given(LIMIT)),
    ("prlimit64", "new_rlim", given(LIMIT)),
    ("prlimit64", "old_rlim", filled(LIMIT)),
    ("sched_setscheduler", "param", given(SCHEDULING)),
    ("sched_setparam", "param", given(SCHEDULING)),
    ("sched_getparam", "param", filled(SCHEDULING)),
    ("sched_setattr", "uattr", given(Shape::Members(&shape::SCHEDULING_MORE))),
    ("sched_getattr", "uattr", filled(Shape::Members(&shape::SCHEDULING_MORE))),
    ("sched_setaffinity", "user_mask_ptr", of(Processors, ElementCount::Bytes(1), When::Before)),
    ("sched_getaffinity", "user_mask_ptr", of(Processors, ElementCount::Returned, When::After)),
    ("getcpu", "cpup", filled(INT)),
    ("getcpu", "nodep", filled(INT)),
    ("sysinfo", "info", filled(Shape::Members(&shape::SYSTEM))),
    ("capget", "header", given(Shape::Members(&shape::CAPABILITIES))),
    ("capset", "header", given(Shape::Members(&shape::CAPABILITIES))),
    ("newuname", "name", filled(Shape::Members(&shape::NAMES))),
    ("getgroups", "grouplist", of(INT, ElementCount::Returned, When::After)),
    ("setgroups", "grouplist", of(INT, ElementCount::Argument(0), When::Before)),
    ("getresuid", "ruidp", filled(INT)),
    ("getresuid", "euidp", filled(INT)),
    ("getresuid", "suidp", filled(INT)),
    ("getresgid", "rgidp", filled(INT)),
    ("getresgid", "egidp", filled(INT)),
    ("getresgid", "sgidp", filled(INT)),
    ("prctl", "arg2", ArgumentKind::ProcessControl),
];

impl ArgumentKind {
    /// How the memory that such an argument points to is read, where it is.
    pub fn reading(self) -> Option<Reading> {
        let plain = |when, length, most| Some(Reading { when, length, most });
        match self {
            Self::InBuffer(place) => plain(When::Both, Length::Argument(place, 1), BUFFER),
            Self::OutBuffer => plain(When::After, Length::Returned(1), BUFFER),
            Self::OutPath => plain(When::After, Length::Returned(1), MAX),
            Self::Remaining(structure) => {
                let size = structure.size as u32;
                plain(When::After, Length::Fixed(size), size)
            }
            Self::ProcessControl => plain(When::Both, Length::Fixed(16), 16),
            Self::Pointed(pointed) => Some(pointed.reading()),
            _ => None,
        }
    }
}

impl Pointed {
    fn reading(self) -> Reading {
        let size = self.shape.size();
        // Memory given to the call is read again at the return: its page may not have been in memory before.
        let when = match (self.when, self.shape) {
            (
                When::Before,
                Shape::Strings(_)
                | Shape::TextCount(_)
                | Shape::Message(_)
                | Shape::Messages(_)
                | Shape::Vectors(_),
            ) => When::Before,
            (When::Before, _) => When::Both,
            (when, _) => when,
        };
        let (length, most) = match (self.shape, self.many) {
            (Shape::Strings(width), _) => {
                let addresses = size * (width.strings() as u32 + 1);
                (Length::Fixed(addresses), addresses)
            }
            (Shape::FileControl(Narrow), _) => (Length::Lock(1), size),
            (Shape::DeviceControl, _) => (Length::Request(1), size),
            (Shape::TextCount(_), _) => (Length::Fixed(COUNTED), COUNTED),
            (_, ElementCount::Two) => (Length::Fixed(2 * size), 2 * size),
            (_, ElementCount::One) => (Length::Fixed(size), size),
            (_, ElementCount::Argument(place)) => (Length::Argument(place, size), MAX),
            (_, ElementCount::Returned) => (Length::Returned(size), MAX),
            (_, ElementCount::Bytes(place)) => (Length::Argument(place, 1), ADDRESS),
            (_, ElementCount::Behind(place)) => (Length::Behind(place), ADDRESS),
        };
        Reading { when, length, most }
    }
}

/// Names for the protocol numbers of an address family.
pub fn protocol(family: i64) -> Option<Meaning> {
    match family {
        // AF_INET, AF_INET6, AF_NETLINK.
        2 | 10 => Some(Meaning::Protocol),
        16 => Some(Meaning::NetlinkProtocol),
        _ => None,
    }
}
