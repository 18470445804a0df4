//! Meanings of a system call's numbers, so that they are shown by the names that the kernel's headers have for it.

use serde::{Deserialize, Serialize};

/// Declares the meanings, each with the word that metadata of traces has for it.
macro_rules! meanings {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal,)*) => {
        /// Meaning of a number: a family of names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Meaning {
            $($(#[doc = $doc])* $name,)*
        }

        /// All meanings with their words in metadata.
        pub const MEANINGS: &[(Meaning, &str)] = &[$((Meaning::$name, $word),)*];
    };
}

meanings! {
    /// A descriptor of a directory, or `AT_FDCWD`.
    Directory = "dirfd",
    /// `O_*`.
    Open = "open",
    /// `O_CLOEXEC` and others of pipe2(2) and dup3(2).
    Pipe = "pipe",
    /// `AT_*`.
    At = "at",
    /// `AT_EACCESS` and other `AT_*` of faccessat2(2).
    AccessAt = "access_at",
    /// `AT_REMOVEDIR`.
    UnlinkAt = "unlink_at",
    /// `R_OK` and its like.
    Access = "access",
    /// A file's kind and permissions: `S_IFREG|0644`.
    FileMode = "mode",
    /// `SEEK_*`.
    Whence = "whence",
    /// Commands of fcntl(2).
    Fcntl = "fcntl",
    /// `LOCK_*`.
    Lock = "lock",
    /// Requests of ioctl(2) that are well known.
    Ioctl = "ioctl",
    /// `RENAME_*`.
    Rename = "rename",
    /// `STATX_*`.
    Statx = "statx",
    /// `STATX_ATTR_*`.
    StatxAttributes = "statx_attributes",
    /// Kinds of file systems of statfs(2): `TMPFS_MAGIC`.
    FileSystem = "file_system",
    /// A user or group, of which -1 leaves it as it is.
    Owner = "owner",
    /// `KCMP_*`.
    Compare = "kcmp",
    /// `XATTR_*`.
    Xattr = "xattr",
    /// `FALLOC_FL_*`.
    Fallocate = "fallocate",
    /// `POSIX_FADV_*`.
    FileAdvice = "fadvise",
    /// `SPLICE_F_*`.
    Splice = "splice",
    /// `SYNC_FILE_RANGE_*`.
    SyncRange = "sync_range",
    /// `RWF_*`.
    ReadWrite = "rwf",
    /// `MS_*` of mount(2).
    MountFlags = "mount",
    /// `MNT_*` of umount2(2).
    Unmount = "umount",
    /// `CLOSE_RANGE_*`.
    CloseRange = "close_range",
    /// `PROT_*`.
    Protection = "prot",
    /// `MAP_*`.
    Map = "map",
    /// `MREMAP_*`.
    Remap = "mremap",
    /// `MADV_*`.
    Advice = "madvise",
    /// `MS_*` of msync(2).
    SyncMemory = "msync",
    /// `MCL_*`.
    LockMemory = "mlockall",
    /// `MLOCK_*`.
    LockRange = "mlock2",
    /// `MFD_*`.
    Memfd = "memfd",
    /// `MPOL_*`.
    MemoryPolicy = "mempolicy",
    /// `MEMBARRIER_CMD_*`.
    Membarrier = "membarrier",
    /// `CLONE_*` and the signal of the end.
    Clone = "clone",
    /// `CLONE_NEW*` of setns(2).
    Namespace = "namespace",
    /// Options of wait4(2) and waitid(2).
    Wait = "wait",
    /// `P_*` of waitid(2).
    WaitFor = "wait_for",
    /// `PR_*`.
    Prctl = "prctl",
    /// `ARCH_*`.
    ArchPrctl = "arch_prctl",
    /// `PTRACE_*`.
    Ptrace = "ptrace",
    /// `RLIMIT_*`.
    Limit = "rlimit",
    /// `RUSAGE_*`.
    Usage = "rusage",
    /// `PRIO_*`.
    Priority = "priority",
    /// `SCHED_*`.
    Scheduler = "sched",
    /// `FUTEX_*`.
    Futex = "futex",
    /// `SECCOMP_*` operations.
    Seccomp = "seccomp",
    /// `PIDFD_NONBLOCK`.
    PidFd = "pidfd",
    /// `RSEQ_FLAG_*`.
    Rseq = "rseq",
    /// `SIG*`.
    Signal = "signal",
    /// `SIG_BLOCK` and its like.
    MaskHow = "sigmask",
    /// `SFD_*`.
    SignalFd = "signalfd",
    /// `AF_*`.
    AddressFamily = "af",
    /// `SOCK_*`: a type and flags.
    SocketType = "socket",
    /// `SOCK_CLOEXEC` and `SOCK_NONBLOCK` alone.
    SocketFlags = "accept",
    /// `IPPROTO_*`.
    Protocol = "ipproto",
    /// `SOL_*`: the level of an option.
    Level = "level",
    /// `SO_*`.
    SocketOption = "so",
    /// `TCP_*` options.
    TcpOption = "tcp",
    /// `MSG_*`.
    Message = "msg",
    /// `SHUT_*`.
    Shutdown = "shutdown",
    /// `EPOLL_CTL_*`.
    Epoll = "epoll_ctl",
    /// `EPOLL_CLOEXEC`.
    EpollCreate = "epoll_create",
    /// `EFD_*`.
    EventFd = "eventfd",
    /// `IN_*` events.
    Inotify = "inotify",
    /// `IN_CLOEXEC` and `IN_NONBLOCK`.
    InotifyInit = "inotify_init",
    /// `CLOCK_*`.
    Clock = "clock",
    /// `TIMER_ABSTIME`.
    Timer = "timer",
    /// `TFD_*` of timerfd_create(2).
    TimerFd = "timerfd",
    /// `TFD_TIMER_*` of timerfd_settime(2).
    TimerFdSet = "timerfd_settime",
    /// `ITIMER_*`.
    IntervalTimer = "itimer",
    /// `GRND_*`.
    Random = "random",
    /// Commands of bpf(2).
    Bpf = "bpf",
    /// A key of msgget(2) and its like, or `IPC_PRIVATE`.
    IpcKey = "ipc_key",
    /// `IPC_*` flags and permissions of msgget(2) and its like.
    IpcGet = "ipc_get",
    /// `IPC_*` commands.
    IpcControl = "ipc_ctl",
    /// `PERF_FLAG_*`.
    Perf = "perf",
    /// `POLL*` events.
    Poll = "poll",
    /// `EPOLL*` events.
    EpollEvents = "epoll_events",
    /// `SA_*`.
    ActionFlags = "sa_flags",
    /// `SS_*`.
    SignalStack = "sigaltstack",
    /// `FD_CLOEXEC`.
    DescriptorFlags = "fd_flags",
    /// `F_SEAL_*`.
    Seals = "seals",
    /// `RESOLVE_*`.
    Resolve = "resolve",
    /// `F_RDLCK` and its like.
    LockType = "lock_type",
    /// `NETLINK_*`: protocols of netlink sockets.
    NetlinkProtocol = "netlink",
    /// `NLMSG_*`: types of messages that every protocol of netlink has.
    NetlinkType = "nlmsg",
    /// `RTM_*`: types of messages of NETLINK_ROUTE.
    RouteType = "rtm",
    /// `NLM_F_*` of requests.
    NetlinkFlags = "nlm_f",
    /// `SCM_*`: types of control messages.
    ControlType = "scm",
    /// `SIGEV_*`.
    Notify = "sigev",
    /// `SI_*`: why a signal came.
    SignalCode = "si_code",
    /// `CLD_*`: what became of a child.
    ChildCode = "cld_code",
    /// `F_OWNER_*`: what a signal's receiver is.
    FileOwner = "f_owner",
    /// `IP_*` options.
    IpOption = "ip",
    /// `IPV6_*` options.
    Ipv6Option = "ipv6",
    /// `IPC_NOWAIT` and other flags of messages of System V.
    IpcMessage = "ipc_message",
    /// Commands of semctl(2).
    SemaphoreControl = "semctl",
    /// Flags of semop(2).
    SemaphoreFlags = "semop",
    /// `SHM_*` of shmat(2).
    AttachFlags = "shmat",
    /// `ILL_*`: what was wrong with an instruction.
    IllegalCode = "ill_code",
    /// `FPE_*`: what was wrong in arithmetic.
    ArithmeticCode = "fpe_code",
    /// `SEGV_*`: what was wrong with an address.
    SegmentCode = "segv_code",
    /// `BUS_*`: what was wrong with memory.
    BusCode = "bus_code",
    /// `TRAP_*`: what stopped a program.
    TrapCode = "trap_code",
    /// `POLL_*` of SIGIO.
    PollCode = "poll_code",
    /// `SYS_*` of SIGSYS.
    SystemCallCode = "sys_code",
    /// `SCHED_FLAG_*`.
    SchedulerFlags = "sched_flags",
    /// `_LINUX_CAPABILITY_VERSION_*`.
    CapabilityVersion = "cap_version",
    /// `MOUNT_ATTR_*`.
    MountAttributes = "mount_attr",
    /// `MOVE_MOUNT_*`.
    MoveMount = "move_mount",
    /// `FSOPEN_CLOEXEC`.
    FsOpen = "fsopen",
    /// `FSMOUNT_CLOEXEC`.
    FsMount = "fsmount",
    /// `FSPICK_*`.
    FsPick = "fspick",
    /// `FSCONFIG_*`.
    FsConfig = "fsconfig",
    /// `OPEN_TREE_*` and some `AT_*`.
    OpenTree = "open_tree",
    /// `IORING_SETUP_*`.
    RingSetup = "io_uring_setup",
    /// `IORING_ENTER_*`.
    RingEnter = "io_uring_enter",
    /// `IORING_FEAT_*`.
    RingFeatures = "io_uring_feat",
    /// `ADJ_*`.
    Adjust = "timex_modes",
    /// `STA_*`.
    ClockStatus = "timex_status",
    /// Input modes of terminals.
    InputModes = "c_iflag",
    /// Output modes of terminals.
    OutputModes = "c_oflag",
    /// Control modes of terminals.
    ControlModes = "c_cflag",
    /// Local modes of terminals.
    LocalModes = "c_lflag",
    /// A device as the kernel's own events have it: `254,0`, major and minor number.
    KernelDevice = "kdev",
}

impl Meaning {
    /// The word in metadata.
    pub fn word(self) -> &'static str {
        let found = MEANINGS.iter().find(|(meaning, _)| *meaning == self);
        found.map_or("", |(_, word)| word)
    }

    /// The meaning of a word of metadata.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let found = MEANINGS.iter().find(|(_, own)| *own == word);
        found.map(|(meaning, _)| *meaning)
    }
}
