//! Names of flags and numbers of system calls about signals.

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
    (
        Meaning::Notify,
        names(rows!(whole general [SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD, SIGEV_THREAD_ID])),
    ),
    (
        Meaning::SignalCode,
        names(rows!(whole general [
            SI_USER, SI_KERNEL, SI_QUEUE, SI_TIMER, SI_MESGQ, SI_ASYNCIO, SI_SIGIO, SI_TKILL, SI_DETHREAD, SI_ASYNCNL,
        ])),
    ),
    (
        Meaning::ChildCode,
        names(rows!(whole general [
            CLD_EXITED, CLD_KILLED, CLD_DUMPED, CLD_TRAPPED, CLD_STOPPED, CLD_CONTINUED,
        ])),
    ),
    (
        Meaning::FileOwner,
        names(rows!(whole general [F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP])),
    ),
    (
        Meaning::IllegalCode,
        names(rows!(whole general [
            ILL_ILLOPC, ILL_ILLOPN, ILL_ILLADR, ILL_ILLTRP, ILL_PRVOPC, ILL_PRVREG, ILL_COPROC, ILL_BADSTK,
        ])),
    ),
    (
        Meaning::ArithmeticCode,
        names(rows!(whole general [
            FPE_INTDIV, FPE_INTOVF, FPE_FLTDIV, FPE_FLTOVF, FPE_FLTUND, FPE_FLTRES, FPE_FLTINV, FPE_FLTSUB,
        ])),
    ),
    (
        Meaning::SegmentCode,
        names(rows!(whole general [SEGV_MAPERR, SEGV_ACCERR, SEGV_BNDERR, SEGV_PKUERR])),
    ),
    (
        Meaning::BusCode,
        names(rows!(whole general [BUS_ADRALN, BUS_ADRERR, BUS_OBJERR, BUS_MCEERR_AR, BUS_MCEERR_AO])),
    ),
    (
        Meaning::TrapCode,
        names(rows!(whole general [TRAP_BRKPT, TRAP_TRACE, TRAP_BRANCH, TRAP_HWBKPT, TRAP_UNK, TRAP_PERF])),
    ),
    (
        Meaning::PollCode,
        names(rows!(whole general [POLL_IN, POLL_OUT, POLL_MSG, POLL_ERR, POLL_PRI, POLL_HUP])),
    ),
    (
        Meaning::SystemCallCode,
        names(rows!(whole general [SYS_SECCOMP, SYS_USER_DISPATCH])),
    ),
];
