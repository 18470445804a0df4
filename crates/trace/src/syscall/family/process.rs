//! Names of flags and commands of system calls about processes: clone, wait, prctl, ptrace, limits, scheduling, seccomp, capabilities.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::Clone,
        flags(rows!(
            & 0xff general [SIGCHLD, SIGUSR1, SIGUSR2]
            bit general [
                CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PIDFD, CLONE_PTRACE, CLONE_VFORK, CLONE_PARENT, CLONE_THREAD, CLONE_NEWNS,
                CLONE_SYSVSEM, CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_DETACHED, CLONE_UNTRACED, CLONE_CHILD_SETTID,
                CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_IO,
            ]
        )),
    ),
    (
        Meaning::Namespace,
        flags(rows!(bit general [
            CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD, CLONE_NEWNS, CLONE_SYSVSEM, CLONE_NEWTIME, CLONE_NEWCGROUP, CLONE_NEWUTS,
            CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET,
        ])),
    ),
    (
        Meaning::Wait,
        flags(rows!(bit general [
            WNOHANG, WUNTRACED, WEXITED, WCONTINUED, WNOWAIT, __WNOTHREAD, __WALL, __WCLONE,
        ])),
    ),
    (
        Meaning::WaitFor,
        names(rows!(whole general [P_ALL, P_PID, P_PGID, P_PIDFD])),
    ),
    (
        Meaning::Prctl,
        names(rows!(whole prctl [
            PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_GET_KEEPCAPS, PR_SET_KEEPCAPS, PR_SET_NAME, PR_GET_NAME,
            PR_GET_SECCOMP, PR_SET_SECCOMP, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_GET_TSC, PR_SET_TSC, PR_GET_SECUREBITS, PR_SET_SECUREBITS,
            PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_SET_MM, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS,
            PR_GET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_CAP_AMBIENT, PR_SET_SPECULATION_CTRL, PR_GET_SPECULATION_CTRL,
            PR_SET_PTRACER, PR_SET_VMA, PR_SCHED_CORE, PR_SET_MDWE, PR_GET_MDWE,
        ])),
    ),
    (
        // Others are printed in hexadecimal, as the header writes them.
        Meaning::ArchPrctl,
        flags(rows!(+ whole [
            ARCH_SET_GS = 0x1001, ARCH_SET_FS = 0x1002, ARCH_GET_FS = 0x1003, ARCH_GET_GS = 0x1004, ARCH_GET_CPUID = 0x1011,
            ARCH_SET_CPUID = 0x1012, ARCH_GET_XCOMP_SUPP = 0x1021, ARCH_GET_XCOMP_PERM = 0x1022, ARCH_REQ_XCOMP_PERM = 0x1023,
            ARCH_SHSTK_ENABLE = 0x5001, ARCH_SHSTK_DISABLE = 0x5002, ARCH_SHSTK_LOCK = 0x5003, ARCH_SHSTK_STATUS = 0x5005,
        ])),
    ),
    (
        Meaning::Ptrace,
        names(rows!(whole ptrace [
            PTRACE_TRACEME, PTRACE_PEEKTEXT, PTRACE_PEEKDATA, PTRACE_PEEKUSR, PTRACE_POKETEXT, PTRACE_POKEDATA, PTRACE_POKEUSR, PTRACE_CONT,
            PTRACE_KILL, PTRACE_SINGLESTEP, PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SYSCALL, PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG,
            PTRACE_GETSIGINFO, PTRACE_SETSIGINFO, PTRACE_GETREGSET, PTRACE_SETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_LISTEN,
        ])),
    ),
    (
        Meaning::Limit,
        names(rows!(whole general [
            RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS,
            RLIMIT_LOCKS, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME,
        ])),
    ),
    (
        Meaning::Usage,
        names(rows!(whole general [RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD])),
    ),
    (
        Meaning::Priority,
        names(rows!(whole general [PRIO_PROCESS, PRIO_PGRP, PRIO_USER])),
    ),
    (
        Meaning::Scheduler,
        names(rows!(whole general [
            SCHED_NORMAL, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_DEADLINE,
        ])),
    ),
    (
        Meaning::Futex,
        flags(rows!(
            & 0x7f general [
                FUTEX_WAIT, FUTEX_WAKE, FUTEX_FD, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI,
                FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI2,
            ]
            bit general [FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME]
        )),
    ),
    (
        Meaning::Compare,
        names(rows!(+ whole [
            KCMP_FILE = 0, KCMP_VM = 1, KCMP_FILES = 2, KCMP_FS = 3, KCMP_SIGHAND = 4, KCMP_IO = 5, KCMP_SYSVSEM = 6,
            KCMP_EPOLL_TFD = 7,
        ])),
    ),
    (
        Meaning::Seccomp,
        names(rows!(+ whole [
            SECCOMP_SET_MODE_STRICT = 0, SECCOMP_SET_MODE_FILTER = 1, SECCOMP_GET_ACTION_AVAIL = 2, SECCOMP_GET_NOTIF_SIZES = 3,
        ])),
    ),
    (
        Meaning::PidFd,
        flags(rows!(+ [PIDFD_NONBLOCK = 0o4000 / 0o4000, PIDFD_THREAD = 0o200 / 0o200])),
    ),
    (Meaning::Rseq, flags(rows!(+ [RSEQ_FLAG_UNREGISTER = 1 / 1]))),
    (
        Meaning::SchedulerFlags,
        flags(rows!(bit general [
            SCHED_FLAG_RESET_ON_FORK, SCHED_FLAG_RECLAIM, SCHED_FLAG_DL_OVERRUN, SCHED_FLAG_KEEP_POLICY, SCHED_FLAG_KEEP_PARAMS,
            SCHED_FLAG_UTIL_CLAMP_MIN, SCHED_FLAG_UTIL_CLAMP_MAX,
        ])),
    ),
    (
        Meaning::CapabilityVersion,
        names(rows!(whole general [
            _LINUX_CAPABILITY_VERSION_1, _LINUX_CAPABILITY_VERSION_2, _LINUX_CAPABILITY_VERSION_3,
        ])),
    ),
];
