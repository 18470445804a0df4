//! Signals.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::ActionFlags,
        flags(rows!(bit general [
            SA_RESTORER, SA_ONSTACK, SA_RESTART, SA_NODEFER, SA_RESETHAND, SA_SIGINFO, SA_NOCLDSTOP, SA_NOCLDWAIT, SA_UNSUPPORTED, SA_EXPOSE_TAGBITS,
        ])),
    ),
    (
        Meaning::SignalStack,
        flags(rows!(bit general [SS_ONSTACK, SS_DISABLE])),
    ),
    (
        Meaning::Signal,
        names(rows!(whole general [
            SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT,
            SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGSYS,
        ])),
    ),
    (
        Meaning::MaskHow,
        names(rows!(whole general [SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK])),
    ),
    (
        Meaning::SignalFd,
        flags(rows!(+ [SFD_CLOEXEC = 0o2000000 / 0o2000000, SFD_NONBLOCK = 0o4000 / 0o4000])),
    ),
];
