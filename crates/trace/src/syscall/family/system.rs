//! Names of flags and commands of system calls about the system: random numbers, BPF, perf, System V IPC.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::Random,
        flags(rows!(bit general [GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE])),
    ),
    (
        Meaning::Bpf,
        names(rows!(+ [
            BPF_MAP_CREATE = 0 / -1, BPF_MAP_LOOKUP_ELEM = 1 / -1, BPF_MAP_UPDATE_ELEM = 2 / -1, BPF_MAP_DELETE_ELEM = 3 / -1, BPF_MAP_GET_NEXT_KEY = 4 / -1,
            BPF_PROG_LOAD = 5 / -1, BPF_OBJ_PIN = 6 / -1, BPF_OBJ_GET = 7 / -1, BPF_PROG_ATTACH = 8 / -1, BPF_PROG_DETACH = 9 / -1,
            BPF_PROG_TEST_RUN = 10 / -1, BPF_PROG_GET_NEXT_ID = 11 / -1, BPF_MAP_GET_NEXT_ID = 12 / -1, BPF_PROG_GET_FD_BY_ID = 13 / -1,
            BPF_MAP_GET_FD_BY_ID = 14 / -1, BPF_OBJ_GET_INFO_BY_FD = 15 / -1, BPF_PROG_QUERY = 16 / -1, BPF_RAW_TRACEPOINT_OPEN = 17 / -1,
            BPF_BTF_LOAD = 18 / -1, BPF_BTF_GET_FD_BY_ID = 19 / -1, BPF_TASK_FD_QUERY = 20 / -1, BPF_MAP_LOOKUP_AND_DELETE_ELEM = 21 / -1,
            BPF_MAP_FREEZE = 22 / -1, BPF_BTF_GET_NEXT_ID = 23 / -1, BPF_MAP_LOOKUP_BATCH = 24 / -1, BPF_MAP_LOOKUP_AND_DELETE_BATCH = 25 / -1,
            BPF_MAP_UPDATE_BATCH = 26 / -1, BPF_MAP_DELETE_BATCH = 27 / -1, BPF_LINK_CREATE = 28 / -1, BPF_LINK_UPDATE = 29 / -1,
            BPF_LINK_GET_FD_BY_ID = 30 / -1, BPF_LINK_GET_NEXT_ID = 31 / -1, BPF_ENABLE_STATS = 32 / -1, BPF_ITER_CREATE = 33 / -1,
            BPF_LINK_DETACH = 34 / -1, BPF_PROG_BIND_MAP = 35 / -1, BPF_TOKEN_CREATE = 36 / -1,
        ])),
    ),
    (
        Meaning::Perf,
        flags(rows!(+ [
            PERF_FLAG_FD_NO_GROUP = 1 / 1, PERF_FLAG_FD_OUTPUT = 2 / 2, PERF_FLAG_PID_CGROUP = 4 / 4, PERF_FLAG_FD_CLOEXEC = 8 / 8,
        ])),
    ),
    (Meaning::IpcKey, flags(rows!(+ [IPC_PRIVATE = 0 / -1]))),
    (
        Meaning::IpcGet,
        flags(rows!(+ [IPC_CREAT = 0o1000 / 0o1000, IPC_EXCL = 0o2000 / 0o2000])),
    ),
    (
        Meaning::IpcControl,
        names(rows!(+ [IPC_RMID = 0 / -1, IPC_SET = 1 / -1, IPC_STAT = 2 / -1, IPC_INFO = 3 / -1])),
    ),
    (
        Meaning::IpcMessage,
        flags(
            rows!(+ [IPC_NOWAIT = 0o4000 / 0o4000, MSG_NOERROR = 0o10000 / 0o10000, MSG_EXCEPT = 0o20000 / 0o20000, MSG_COPY = 0o40000 / 0o40000]),
        ),
    ),
    (
        Meaning::SemaphoreControl,
        names(rows!(+ [
            IPC_RMID = 0 / -1, IPC_SET = 1 / -1, IPC_STAT = 2 / -1, IPC_INFO = 3 / -1, GETPID = 11 / -1, GETVAL = 12 / -1, GETALL = 13 / -1,
            GETNCNT = 14 / -1, GETZCNT = 15 / -1, SETVAL = 16 / -1, SETALL = 17 / -1, SEM_STAT = 18 / -1, SEM_INFO = 19 / -1, SEM_STAT_ANY = 20 / -1,
        ])),
    ),
    (
        Meaning::SemaphoreFlags,
        flags(rows!(+ [SEM_UNDO = 0x1000 / 0x1000, IPC_NOWAIT = 0o4000 / 0o4000])),
    ),
    (
        Meaning::AttachFlags,
        flags(rows!(+ [
            SHM_RDONLY = 0o10000 / 0o10000, SHM_RND = 0o20000 / 0o20000, SHM_REMAP = 0o40000 / 0o40000, SHM_EXEC = 0o100000 / 0o100000,
        ])),
    ),
];
