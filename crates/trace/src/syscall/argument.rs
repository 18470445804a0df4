//! Arguments of system calls: a table of calls and arguments, by the names that the kernel's own definitions give them.

use super::meaning::Meaning;
use super::pointed::{POINTED, Pointed};
use super::shape::Structure;

/// Kind of an argument, beyond its C type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A descriptor of a file.
    Descriptor,
    /// A number with names.
    Named(Meaning),
    /// The address of a text that ends with a NUL: a path, or another name.
    Text,
    /// A buffer that the call reads, as write(2) does; the argument at this place is its length.
    InBuffer(u8),
    /// A buffer that the call fills, as read(2) does; it returns how many bytes.
    OutBuffer,
    /// A buffer that the call fills with a path, as readlink(2) does.
    OutPath,
    /// The address of a structure, or of some of them.
    Pointed(Pointed),
    /// The address of a time that a call fills where a signal interrupts it.
    Remaining(&'static Structure),
    /// The second argument of prctl(2), which its first explains.
    ProcessControl,
    /// Permissions, in octal digits.
    Mode,
    /// Permissions that count only where these bits of the argument before are set (`O_CREAT`): else it is not an argument at all.
    ModeWith(i64),
    /// A set of bits without names, shown in hexadecimal.
    Bits,
    /// An address that is declared as a number.
    Address,
    /// A number without names, where an argument of its name has some in other calls.
    Plain,
    /// The protocol of a socket, whose family is the first argument.
    Protocol,
    /// The option of a socket, whose level is the argument before.
    Option,
}

/// The call of rows that are about any call.
const ANY: &str = "*";

use ArgumentKind::{
    Address, Bits, Descriptor, InBuffer, Mode, ModeWith, Named, OutBuffer, OutPath, Plain, Text,
};

/// Call, argument, kind. Rows of one call come before those of any.
#[rustfmt::skip]
pub const ARGUMENTS: &[(&str, &str, ArgumentKind)] = &[
    // Files by name.
    ("open", "flags", Named(Meaning::Open)),
    ("open", "mode", ModeWith(0o20000100)),
    ("openat", "flags", Named(Meaning::Open)),
    ("openat", "mode", ModeWith(0o20000100)),
    ("open_by_handle_at", "mountdirfd", Named(Meaning::Directory)),
    ("open_by_handle_at", "flags", Named(Meaning::Open)),
    ("mq_open", "oflag", Named(Meaning::Open)),
    ("access", "mode", Named(Meaning::Access)),
    ("faccessat", "mode", Named(Meaning::Access)),
    ("faccessat2", "mode", Named(Meaning::Access)),
    ("faccessat2", "flags", Named(Meaning::AccessAt)),
    ("newfstatat", "flag", Named(Meaning::At)),
    ("fchownat", "flag", Named(Meaning::At)),
    ("chown", "user", Named(Meaning::Owner)),
    ("chown", "group", Named(Meaning::Owner)),
    ("lchown", "user", Named(Meaning::Owner)),
    ("lchown", "group", Named(Meaning::Owner)),
    ("fchown", "user", Named(Meaning::Owner)),
    ("fchown", "group", Named(Meaning::Owner)),
    ("fchownat", "user", Named(Meaning::Owner)),
    ("fchownat", "group", Named(Meaning::Owner)),
    ("fchmodat2", "flags", Named(Meaning::At)),
    ("linkat", "flags", Named(Meaning::At)),
    ("name_to_handle_at", "flag", Named(Meaning::At)),
    ("name_to_handle_at", "name", Text),
    ("utimensat", "flags", Named(Meaning::At)),
    ("execveat", "fd", Named(Meaning::Directory)),
    ("execveat", "flags", Named(Meaning::At)),
    ("statx", "flags", Named(Meaning::At)),
    ("statx", "mask", Named(Meaning::Statx)),
    ("unlinkat", "flag", Named(Meaning::UnlinkAt)),
    ("mknod", "mode", Named(Meaning::FileMode)),
    ("mknodat", "mode", Named(Meaning::FileMode)),
    ("renameat2", "flags", Named(Meaning::Rename)),
    ("utime", "filename", Text),
    ("acct", "name", Text),
    ("swapon", "specialfile", Text),
    ("swapoff", "specialfile", Text),
    ("umask", "mask", Mode),
    ("readlink", "buf", OutPath),
    ("readlinkat", "buf", OutPath),
    ("getcwd", "buf", OutPath),
    ("mount", "dev_name", Text),
    ("mount", "dir_name", Text),
    ("mount", "type", Text),
    ("mount", "flags", Named(Meaning::MountFlags)),
    ("mount", "data", Text),
    ("umount", "name", Text),
    ("umount", "flags", Named(Meaning::Unmount)),
    ("pivot_root", "new_root", Text),
    ("pivot_root", "put_old", Text),
    ("quotactl", "special", Text),
    ("move_mount", "from_dfd", Named(Meaning::Directory)),
    ("move_mount", "from_pathname", Text),
    ("move_mount", "to_dfd", Named(Meaning::Directory)),
    ("move_mount", "to_pathname", Text),
    ("move_mount", "flags", Named(Meaning::MoveMount)),
    ("fsopen", "_fs_name", Text),
    ("fsopen", "flags", Named(Meaning::FsOpen)),
    ("fsconfig", "_key", Text),
    ("fsconfig", "cmd", Named(Meaning::FsConfig)),
    ("fsmount", "fs_fd", Descriptor),
    ("fsmount", "flags", Named(Meaning::FsMount)),
    ("fsmount", "attr_flags", Named(Meaning::MountAttributes)),
    ("fspick", "flags", Named(Meaning::FsPick)),
    ("open_tree", "flags", Named(Meaning::OpenTree)),
    ("mount_setattr", "flags", Named(Meaning::At)),
    ("setxattr", "name", Text),
    ("setxattr", "value", InBuffer(3)),
    ("lsetxattr", "value", InBuffer(3)),
    ("fsetxattr", "value", InBuffer(3)),
    ("getxattr", "value", OutBuffer),
    ("lgetxattr", "value", OutBuffer),
    ("fgetxattr", "value", OutBuffer),
    ("listxattr", "list", OutBuffer),
    ("llistxattr", "list", OutBuffer),
    ("flistxattr", "list", OutBuffer),
    ("setxattr", "flags", Named(Meaning::Xattr)),
    ("lsetxattr", "name", Text),
    ("lsetxattr", "flags", Named(Meaning::Xattr)),
    ("fsetxattr", "name", Text),
    ("fsetxattr", "flags", Named(Meaning::Xattr)),
    ("setxattrat", "name", Text),
    ("setxattrat", "at_flags", Named(Meaning::At)),
    ("getxattr", "name", Text),
    ("lgetxattr", "name", Text),
    ("fgetxattr", "name", Text),
    ("getxattrat", "name", Text),
    ("getxattrat", "at_flags", Named(Meaning::At)),
    ("listxattrat", "at_flags", Named(Meaning::At)),
    ("removexattr", "name", Text),
    ("lremovexattr", "name", Text),
    ("fremovexattr", "name", Text),
    ("removexattrat", "name", Text),
    ("removexattrat", "at_flags", Named(Meaning::At)),
    ("inotify_init1", "flags", Named(Meaning::InotifyInit)),
    ("inotify_add_watch", "mask", Named(Meaning::Inotify)),
    // Descriptors.
    ("read", "buf", OutBuffer),
    ("pread64", "buf", OutBuffer),
    ("write", "buf", InBuffer(2)),
    ("pwrite64", "buf", InBuffer(2)),
    ("preadv2", "flags", Named(Meaning::ReadWrite)),
    ("pwritev2", "flags", Named(Meaning::ReadWrite)),
    ("lseek", "whence", Named(Meaning::Whence)),
    ("fcntl", "cmd", Named(Meaning::Fcntl)),
    ("flock", "cmd", Named(Meaning::Lock)),
    ("ioctl", "cmd", Named(Meaning::Ioctl)),
    ("fallocate", "mode", Named(Meaning::Fallocate)),
    ("fadvise64", "advice", Named(Meaning::FileAdvice)),
    ("sync_file_range", "flags", Named(Meaning::SyncRange)),
    ("splice", "flags", Named(Meaning::Splice)),
    ("tee", "flags", Named(Meaning::Splice)),
    ("vmsplice", "flags", Named(Meaning::Splice)),
    ("dup", "fildes", Descriptor),
    ("dup2", "oldfd", Descriptor),
    ("dup2", "newfd", Descriptor),
    ("dup3", "oldfd", Descriptor),
    ("dup3", "newfd", Descriptor),
    ("dup3", "flags", Named(Meaning::Pipe)),
    ("pipe2", "flags", Named(Meaning::Pipe)),
    ("close_range", "fd", Plain),
    ("close_range", "flags", Named(Meaning::CloseRange)),
    ("copy_file_range", "fd_in", Descriptor),
    ("copy_file_range", "fd_out", Descriptor),
    ("splice", "fd_in", Descriptor),
    ("splice", "fd_out", Descriptor),
    ("tee", "fdin", Descriptor),
    ("tee", "fdout", Descriptor),
    ("sendfile64", "out_fd", Descriptor),
    ("sendfile64", "in_fd", Descriptor),
    ("epoll_create1", "flags", Named(Meaning::EpollCreate)),
    ("epoll_ctl", "op", Named(Meaning::Epoll)),
    ("epoll_ctl", "epfd", Descriptor),
    ("epoll_wait", "epfd", Descriptor),
    ("epoll_pwait", "epfd", Descriptor),
    ("epoll_pwait2", "epfd", Descriptor),
    ("eventfd2", "flags", Named(Meaning::EventFd)),
    ("io_uring_enter", "flags", Named(Meaning::RingEnter)),
    ("signalfd4", "flags", Named(Meaning::SignalFd)),
    ("signalfd4", "ufd", Descriptor),
    ("timerfd_create", "clockid", Named(Meaning::Clock)),
    ("timerfd_create", "flags", Named(Meaning::TimerFd)),
    ("timerfd_settime", "ufd", Descriptor),
    ("timerfd_settime", "flags", Named(Meaning::TimerFdSet)),
    ("timerfd_gettime", "ufd", Descriptor),
    ("memfd_create", "uname", Text),
    ("memfd_create", "flags", Named(Meaning::Memfd)),
    ("memfd_secret", "flags", Named(Meaning::Pipe)),
    // Memory.
    ("mmap", "addr", Address),
    ("mmap", "prot", Named(Meaning::Protection)),
    ("mmap", "flags", Named(Meaning::Map)),
    ("mmap", "off", Bits),
    ("munmap", "addr", Address),
    ("mremap", "addr", Address),
    ("mremap", "new_addr", Address),
    ("mremap", "flags", Named(Meaning::Remap)),
    ("mprotect", "prot", Named(Meaning::Protection)),
    ("pkey_mprotect", "prot", Named(Meaning::Protection)),
    ("madvise", "behavior", Named(Meaning::Advice)),
    ("process_madvise", "behavior", Named(Meaning::Advice)),
    ("msync", "flags", Named(Meaning::SyncMemory)),
    ("mlock2", "flags", Named(Meaning::LockRange)),
    ("mlockall", "flags", Named(Meaning::LockMemory)),
    ("brk", "brk", Address),
    ("set_mempolicy", "mode", Named(Meaning::MemoryPolicy)),
    ("mbind", "mode", Named(Meaning::MemoryPolicy)),
    ("membarrier", "cmd", Named(Meaning::Membarrier)),
    // Processes.
    ("clone", "clone_flags", Named(Meaning::Clone)),
    ("clone", "newsp", Address),
    ("clone", "tls", Bits),
    ("unshare", "unshare_flags", Named(Meaning::Namespace)),
    ("setns", "flags", Named(Meaning::Namespace)),
    ("wait4", "options", Named(Meaning::Wait)),
    ("waitid", "which", Named(Meaning::WaitFor)),
    ("waitid", "options", Named(Meaning::Wait)),
    ("prctl", "option", Named(Meaning::Prctl)),
    ("arch_prctl", "option", Named(Meaning::ArchPrctl)),
    ("ptrace", "request", Named(Meaning::Ptrace)),
    ("getrlimit", "resource", Named(Meaning::Limit)),
    ("setrlimit", "resource", Named(Meaning::Limit)),
    ("prlimit64", "resource", Named(Meaning::Limit)),
    ("getrusage", "who", Named(Meaning::Usage)),
    ("getpriority", "which", Named(Meaning::Priority)),
    ("setpriority", "which", Named(Meaning::Priority)),
    ("sched_setscheduler", "policy", Named(Meaning::Scheduler)),
    ("sched_get_priority_max", "policy", Named(Meaning::Scheduler)),
    ("sched_get_priority_min", "policy", Named(Meaning::Scheduler)),
    ("futex", "op", Named(Meaning::Futex)),
    ("futex", "val3", Bits),
    ("pselect6", "sig", Address),
    ("kcmp", "type", Named(Meaning::Compare)),
    ("seccomp", "op", Named(Meaning::Seccomp)),
    ("pidfd_open", "flags", Named(Meaning::PidFd)),
    ("pidfd_send_signal", "pidfd", Descriptor),
    ("pidfd_getfd", "pidfd", Descriptor),
    ("pidfd_getfd", "fd", Plain),
    ("rseq", "flags", Named(Meaning::Rseq)),
    ("rseq", "sig", Bits),
    ("bpf", "cmd", Named(Meaning::Bpf)),
    ("perf_event_open", "flags", Named(Meaning::Perf)),
    ("perf_event_open", "group_fd", Descriptor),
    ("rt_sigprocmask", "how", Named(Meaning::MaskHow)),
    // Sockets.
    ("socket", "family", Named(Meaning::AddressFamily)),
    ("socket", "type", Named(Meaning::SocketType)),
    ("socket", "protocol", ArgumentKind::Protocol),
    ("socketpair", "family", Named(Meaning::AddressFamily)),
    ("socketpair", "type", Named(Meaning::SocketType)),
    ("socketpair", "protocol", ArgumentKind::Protocol),
    ("accept4", "flags", Named(Meaning::SocketFlags)),
    ("sendto", "buff", InBuffer(2)),
    ("sendto", "flags", Named(Meaning::Message)),
    ("sendmsg", "flags", Named(Meaning::Message)),
    ("sendmmsg", "flags", Named(Meaning::Message)),
    ("recvfrom", "ubuf", OutBuffer),
    ("recvfrom", "flags", Named(Meaning::Message)),
    ("recvmsg", "flags", Named(Meaning::Message)),
    ("recvmmsg", "flags", Named(Meaning::Message)),
    ("shutdown", "how", Named(Meaning::Shutdown)),
    ("getsockopt", "level", Named(Meaning::Level)),
    ("setsockopt", "level", Named(Meaning::Level)),
    ("getsockopt", "optname", ArgumentKind::Option),
    ("setsockopt", "optname", ArgumentKind::Option),
    // Clocks, IPC, the system.
    ("clock_nanosleep", "flags", Named(Meaning::Timer)),
    ("timer_settime", "flags", Named(Meaning::Timer)),
    ("getitimer", "which", Named(Meaning::IntervalTimer)),
    ("setitimer", "which", Named(Meaning::IntervalTimer)),
    ("getrandom", "flags", Named(Meaning::Random)),
    ("getrandom", "ubuf", OutBuffer),
    ("msgget", "key", Named(Meaning::IpcKey)),
    ("shmget", "key", Named(Meaning::IpcKey)),
    ("semget", "key", Named(Meaning::IpcKey)),
    ("msgget", "msgflg", Named(Meaning::IpcGet)),
    ("shmget", "shmflg", Named(Meaning::IpcGet)),
    ("semget", "semflg", Named(Meaning::IpcGet)),
    ("msgsnd", "msgflg", Named(Meaning::IpcMessage)),
    ("msgrcv", "msgflg", Named(Meaning::IpcMessage)),
    ("semctl", "cmd", Named(Meaning::SemaphoreControl)),
    ("shmat", "shmflg", Named(Meaning::AttachFlags)),
    ("msgctl", "cmd", Named(Meaning::IpcControl)),
    ("shmctl", "cmd", Named(Meaning::IpcControl)),
    ("mq_unlink", "u_name", Text),
    ("mq_open", "u_name", Text),
    ("add_key", "_type", Text),
    ("add_key", "_description", Text),
    ("request_key", "_type", Text),
    ("request_key", "_description", Text),
    // Arguments that mean the same in every call that has them.
    (ANY, "start", Address),
    (ANY, "fd", Descriptor),
    (ANY, "dfd", Named(Meaning::Directory)),
    (ANY, "olddfd", Named(Meaning::Directory)),
    (ANY, "newdfd", Named(Meaning::Directory)),
    (ANY, "filename", Text),
    (ANY, "pathname", Text),
    (ANY, "path", Text),
    (ANY, "oldname", Text),
    (ANY, "newname", Text),
    (ANY, "sig", Named(Meaning::Signal)),
    (ANY, "which_clock", Named(Meaning::Clock)),
    (ANY, "mode", Mode),
];

/// Kind of a call's argument, where the table has it.
pub fn kind(call: &str, argument: &str) -> Option<ArgumentKind> {
    let found = POINTED
        .iter()
        .chain(ARGUMENTS)
        .find(|(own, name, _)| *name == argument && (*own == call || *own == ANY));
    found.map(|(.., kind)| *kind)
}

/// Names for an argument's number, where it has any.
pub fn meaning(call: &str, argument: &str) -> Option<Meaning> {
    match kind(call, argument) {
        Some(Named(meaning)) => Some(meaning),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_has_one_row() {
        let all: Vec<_> = POINTED.iter().chain(ARGUMENTS).collect();
        for (at, (call, argument, _)) in all.iter().enumerate() {
            let again = all[at + 1..].iter().any(|(c, a, _)| c == call && a == argument);
            assert!(!again, "{call} {argument}");
        }
        assert_eq!(kind("close", "fd"), Some(Descriptor));
        assert_eq!(kind("execveat", "fd"), Some(Named(Meaning::Directory)));
        assert_eq!(kind("chmod", "mode"), Some(Mode));
        assert_eq!(meaning("openat", "flags"), Some(Meaning::Open));
        assert_eq!(kind("close", "flags"), None);
    }
}
