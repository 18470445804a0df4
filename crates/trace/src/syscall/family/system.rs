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
        names(rows!(+ whole [
            BPF_MAP_CREATE = 0, BPF_MAP_LOOKUP_ELEM = 1, BPF_MAP_UPDATE_ELEM = 2, BPF_MAP_DELETE_ELEM = 3, BPF_MAP_GET_NEXT_KEY = 4,
            BPF_PROG_LOAD = 5, BPF_OBJ_PIN = 6, BPF_OBJ_GET = 7, BPF_PROG_ATTACH = 8, BPF_PROG_DETACH = 9,
            BPF_PROG_TEST_RUN = 10, BPF_PROG_GET_NEXT_ID = 11, BPF_MAP_GET_NEXT_ID = 12, BPF_PROG_GET_FD_BY_ID = 13,
            BPF_MAP_GET_FD_BY_ID = 14, BPF_OBJ_GET_INFO_BY_FD = 15, BPF_PROG_QUERY = 16, BPF_RAW_TRACEPOINT_OPEN = 17,
            BPF_BTF_LOAD = 18, BPF_BTF_GET_FD_BY_ID = 19, BPF_TASK_FD_QUERY = 20, BPF_MAP_LOOKUP_AND_DELETE_ELEM = 21,
            BPF_MAP_FREEZE = 22, BPF_BTF_GET_NEXT_ID = 23, BPF_MAP_LOOKUP_BATCH = 24, BPF_MAP_LOOKUP_AND_DELETE_BATCH = 25,
            BPF_MAP_UPDATE_BATCH = 26, BPF_MAP_DELETE_BATCH = 27, BPF_LINK_CREATE = 28, BPF_LINK_UPDATE = 29,
            BPF_LINK_GET_FD_BY_ID = 30, BPF_LINK_GET_NEXT_ID = 31, BPF_ENABLE_STATS = 32, BPF_ITER_CREATE = 33,
            BPF_LINK_DETACH = 34, BPF_PROG_BIND_MAP = 35, BPF_TOKEN_CREATE = 36,
        ])),
    ),
    (
        Meaning::Perf,
        flags(rows!(+ [
            PERF_FLAG_FD_NO_GROUP = 1 / 1, PERF_FLAG_FD_OUTPUT = 2 / 2, PERF_FLAG_PID_CGROUP = 4 / 4, PERF_FLAG_FD_CLOEXEC = 8 / 8,
        ])),
    ),
    (Meaning::IpcKey, flags(rows!(+ whole [IPC_PRIVATE = 0]))),
    (
        Meaning::IpcGet,
        flags(rows!(+ [IPC_CREAT = 0o1000 / 0o1000, IPC_EXCL = 0o2000 / 0o2000])),
    ),
    (
        Meaning::IpcControl,
        names(rows!(+ whole [IPC_RMID = 0, IPC_SET = 1, IPC_STAT = 2, IPC_INFO = 3])),
    ),
    (
        Meaning::IpcMessage,
        flags(
            rows!(+ [IPC_NOWAIT = 0o4000 / 0o4000, MSG_NOERROR = 0o10000 / 0o10000, MSG_EXCEPT = 0o20000 / 0o20000, MSG_COPY = 0o40000 / 0o40000]),
        ),
    ),
    (
        Meaning::SemaphoreControl,
        names(rows!(+ whole [
            IPC_RMID = 0, IPC_SET = 1, IPC_STAT = 2, IPC_INFO = 3, GETPID = 11, GETVAL = 12, GETALL = 13,
            GETNCNT = 14, GETZCNT = 15, SETVAL = 16, SETALL = 17, SEM_STAT = 18, SEM_INFO = 19, SEM_STAT_ANY = 20,
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
