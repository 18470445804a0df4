//! Calls of 32-bit programs on a 64-bit kernel (i386 on x86-64): the native call that each is like, and how far their arguments agree.

use super::shape::Width::Narrow;
use super::shape::{Shape, narrow};
use super::{ArgumentKind, Pointed};

/// A call of the 32-bit interface whose name or arguments are not those of a native call.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    /// The native call, by the name that tracepoints have.
    like: &'static str,
    /// The number of leading arguments that are the same.
    same: usize,
    /// The number of registers that hold arguments: those of 64 bits take two.
    all: usize,
}

const fn row(name: &'static str, like: &'static str, same: usize, all: usize) -> Row {
    Row {
        name,
        like,
        same,
        all,
    }
}

/// Most registers that hold arguments: of a call that is like the other in all.
const ALL: usize = 6;

/// include/linux/compat.h and arch/x86/entry/syscalls/syscall_32.tbl.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("_llseek", "lseek", 1, 5), row("_newselect", "select", ALL, ALL), row("chown32", "chown", ALL, ALL), row("fadvise64", "fadvise64", 1, 5),
    row("fadvise64_64", "fadvise64", 1, 6), row("fallocate", "fallocate", 2, 6), row("fanotify_mark", "fanotify_mark", 2, 6), row("fchown32", "fchown", ALL, ALL),
    row("fcntl64", "fcntl", ALL, ALL), row("fstat64", "newfstat", ALL, ALL), row("fstat", "newfstat", ALL, ALL), row("fstatat64", "newfstatat", ALL, ALL),
    row("fstatfs64", "fstatfs", 1, 3), row("ftruncate64", "ftruncate", 1, 3), row("getegid32", "getegid", ALL, ALL), row("geteuid32", "geteuid", ALL, ALL),
    row("getgid32", "getgid", ALL, ALL), row("getgroups32", "getgroups", ALL, ALL), row("getresgid32", "getresgid", ALL, ALL),
    row("getresuid32", "getresuid", ALL, ALL), row("getuid32", "getuid", ALL, ALL), row("lchown32", "lchown", ALL, ALL), row("lstat64", "newlstat", ALL, ALL),
    row("lstat", "newlstat", ALL, ALL), row("mmap", "mmap", 0, 1), row("mmap2", "mmap", ALL, ALL), row("pread64", "pread64", 3, 5),
    row("pwrite64", "pwrite64", 3, 5), row("readahead", "readahead", 1, 4), row("select", "select", 0, 1), row("sendfile64", "sendfile64", ALL, ALL),
    row("setfsgid32", "setfsgid", ALL, ALL), row("setfsuid32", "setfsuid", ALL, ALL), row("setgid32", "setgid", ALL, ALL),
    row("setgroups32", "setgroups", ALL, ALL), row("setregid32", "setregid", ALL, ALL), row("setresgid32", "setresgid", ALL, ALL),
    row("setresuid32", "setresuid", ALL, ALL), row("setreuid32", "setreuid", ALL, ALL), row("setuid32", "setuid", ALL, ALL), row("stat64", "newstat", ALL, ALL),
    row("stat", "newstat", ALL, ALL), row("statfs64", "statfs", 1, 3), row("sync_file_range", "sync_file_range", 1, 6), row("truncate64", "truncate", 1, 3),
    row("ugetrlimit", "getrlimit", ALL, ALL), row("umount2", "umount", ALL, ALL), row("uname", "newuname", ALL, ALL), row("waitpid", "wait4", 3, 3),
];

/// Calls with 64-bit times: without this their names are those of the native calls, whose structures they take.
const TIME64: &[&str] = &["_time64", "64"];

/// The native call that a call of a 32-bit program is like, how many of its arguments are the same, and how many registers are arguments.
pub fn like(name: &str) -> (&str, usize, usize) {
    if let Some(row) = ROWS.iter().find(|row| row.name == name) {
        return (row.like, row.same, row.all);
    }
    (bare(name).unwrap_or(name), ALL, ALL)
}

/// The name without what says that its times have 64 bits.
fn bare(name: &str) -> Option<&str> {
    if !name.contains("time") || name.ends_with("sendfile64") {
        return None;
    }
    TIME64.iter().find_map(|ending| name.strip_suffix(ending))
}

/// Kind of an argument of a 32-bit program's call: that of the native call, its structures as such a program has them. None where those are not
/// known.
pub fn kind(call: &str, argument: &str) -> Option<ArgumentKind> {
    let (like, ..) = like(call);
    Some(match super::kind(like, argument)? {
        ArgumentKind::Pointed(what) => ArgumentKind::Pointed(Pointed {
            shape: shape(call, what.shape)?,
            ..what
        }),
        ArgumentKind::Remaining(of) => ArgumentKind::Remaining(narrow(call, of)?),
        kind => kind,
    })
}

fn shape(call: &str, own: Shape) -> Option<Shape> {
    Some(match own {
        Shape::Members(of) => Shape::Members(narrow(call, of)?),
        Shape::Strings(_) => Shape::Strings(Narrow),
        Shape::TextCount(_) => Shape::TextCount(Narrow),
        Shape::Vectors(_) => Shape::Vectors(Narrow),
        Shape::Message(_) => Shape::Message(Narrow),
        Shape::Messages(_) => Shape::Messages(Narrow),
        Shape::SignalInfo(_) => Shape::SignalInfo(Narrow),
        Shape::FileControl(_) => Shape::FileControl(Narrow),
        alike => alike,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_like_those_of_the_kernels_own() {
        assert_eq!(like("openat"), ("openat", ALL, ALL));
        assert_eq!(like("clock_gettime64"), ("clock_gettime", ALL, ALL));
        assert_eq!(like("futex_time64"), ("futex", ALL, ALL));
        assert_eq!(like("pread64"), ("pread64", 3, 5));
        assert_eq!(like("sendfile64"), ("sendfile64", ALL, ALL));
        assert_eq!(kind("openat", "filename"), Some(ArgumentKind::Text));
        let read = |call, argument| kind(call, argument).and_then(|kind| Some(kind.reading()?.most));
        assert_eq!(read("stat64", "statbuf"), Some(96));
        assert_eq!(read("clock_gettime", "tp"), Some(8));
        assert_eq!(read("clock_gettime64", "tp"), Some(16));
        assert_eq!(read("recvmsg", "msg"), Some(28));
        assert_eq!(read("fcntl64", "arg"), Some(24));
    }
}
