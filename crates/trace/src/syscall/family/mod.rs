//! Names of numbers as the kernel's headers for user space give them: one table per family, made of the headers' own constants.

mod clock;
mod event;
mod file;
mod memory;
mod network;
mod process;
mod row;
mod signal;
mod system;
mod terminal;

pub use row::{Family, Row, Unnamed};

use super::meaning::Meaning;

/// The families by what they mean; a meaning without a row is a fault that a test finds.
const FAMILIES: &[&[(Meaning, Family)]] = &[
    clock::FAMILIES,
    event::FAMILIES,
    file::FAMILIES,
    memory::FAMILIES,
    network::FAMILIES,
    process::FAMILIES,
    signal::FAMILIES,
    system::FAMILIES,
    terminal::FAMILIES,
];

/// The family of a meaning.
pub fn family(meaning: Meaning) -> Option<&'static Family> {
    let mut all = FAMILIES.iter().flat_map(|families| families.iter());
    all.find(|(own, _)| *own == meaning).map(|(_, family)| family)
}

/// The number of a name, whatever family has it: `AF_INET`, `O_CLOEXEC`, `SIGKILL`.
pub fn number(name: &str) -> Option<i64> {
    let mut rows = FAMILIES
        .iter()
        .flat_map(|families| families.iter())
        .flat_map(|(_, family)| family.rows);
    rows.find(|row| row.name == name).map(|row| row.value)
}

#[cfg(test)]
mod tests {
    use super::super::meaning::MEANINGS;
    use super::*;

    fn text(meaning: Meaning, value: i64) -> String {
        let mut out = String::new();
        meaning.write(value, &mut out);
        out
    }

    #[test]
    fn every_meaning_has_one_family() {
        for (meaning, word) in MEANINGS {
            let all = FAMILIES.iter().flat_map(|families| families.iter());
            assert_eq!(all.filter(|(own, _)| own == meaning).count(), 1, "{word}");
        }
    }

    #[test]
    fn names_have_the_numbers_of_the_headers() {
        for (name, value) in [
            ("AF_INET6", 10),
            ("O_CREAT", 0o100),
            ("SIGKILL", 9),
            ("PROT_WRITE", 2),
        ] {
            assert_eq!(number(name), Some(value), "{name}");
        }
        assert_eq!(number("AF_NOWHERE"), None);
    }

    #[test]
    fn numbers_have_the_names_of_the_headers() {
        for (meaning, value, name) in [
            (Meaning::Open, 0, "O_RDONLY"),
            (Meaning::Open, 0o2000000, "O_RDONLY|O_CLOEXEC"),
            (Meaning::Open, 0o1101, "O_WRONLY|O_CREAT|O_TRUNC"),
            (Meaning::Open, 0o20200002, "O_RDWR|O_TMPFILE"),
            (Meaning::Open, 0o4010001, "O_WRONLY|O_SYNC"),
            (Meaning::Directory, -100, "AT_FDCWD"),
            (Meaning::Directory, 7, "7"),
            (Meaning::Access, 0, "F_OK"),
            (Meaning::Access, 5, "R_OK|X_OK"),
            (Meaning::Protection, 0, "PROT_NONE"),
            (Meaning::Protection, 3, "PROT_READ|PROT_WRITE"),
            (Meaning::Map, 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
            (
                Meaning::Clone,
                0x1200011,
                "SIGCHLD|CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID",
            ),
            (Meaning::SocketType, 0o2000001, "SOCK_STREAM|SOCK_CLOEXEC"),
            (
                Meaning::Futex,
                0x189,
                "FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG|FUTEX_CLOCK_REALTIME",
            ),
            (Meaning::Signal, 9, "SIGKILL"),
            (Meaning::Signal, 0, "0"),
            (Meaning::Signal, 40, "SIGRT_8"),
            (Meaning::Whence, 2, "SEEK_END"),
            (Meaning::At, 0, "0"),
            (Meaning::At, 0x1100, "AT_SYMLINK_NOFOLLOW|AT_EMPTY_PATH"),
            (Meaning::Wait, 3, "WNOHANG|WUNTRACED"),
            (Meaning::Message, 0x4040, "MSG_DONTWAIT|MSG_NOSIGNAL"),
        ] {
            assert_eq!(text(meaning, value), name);
        }
    }

    /// A name of ours with the number that another crate's headers give.
    macro_rules! same {
        ($meaning:ident: $($name:ident)*) => {
            $(
                #[allow(clippy::unnecessary_cast, reason = "the constants have many types")]
                let number = libc::$name as i64;
                let row = family(Meaning::$meaning).unwrap().rows.iter().find(|row| row.name == stringify!($name));
                assert_eq!(row.map(|row| row.value & 0xffff_ffff), Some(number & 0xffff_ffff), stringify!($name));
            )*
        };
    }

    #[test]
    fn numbers_are_those_of_the_libc_crate() {
        same!(Open: O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC O_DIRECT O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH O_TMPFILE O_SYNC);
        same!(At: AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH AT_RECURSIVE);
        same!(Protection: PROT_READ PROT_WRITE PROT_EXEC PROT_NONE);
        same!(Map: MAP_SHARED MAP_PRIVATE MAP_FIXED MAP_ANONYMOUS MAP_POPULATE MAP_STACK MAP_HUGETLB MAP_NORESERVE);
        same!(Clone: CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_THREAD CLONE_NEWNS CLONE_NEWUSER CLONE_VFORK);
        same!(Signal: SIGHUP SIGINT SIGKILL SIGSEGV SIGTERM SIGCHLD SIGUSR1 SIGSYS);
        same!(SocketType: SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_CLOEXEC SOCK_NONBLOCK);
        same!(AddressFamily: AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK);
        same!(Protocol: IPPROTO_TCP IPPROTO_UDP IPPROTO_ICMP IPPROTO_IPV6);
        same!(Epoll: EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD);
        same!(Futex: FUTEX_WAIT FUTEX_WAKE FUTEX_WAIT_BITSET FUTEX_PRIVATE_FLAG);
        same!(Fcntl: F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_SETLK F_DUPFD_CLOEXEC F_ADD_SEALS);
        same!(Advice: MADV_NORMAL MADV_DONTNEED MADV_FREE MADV_HUGEPAGE MADV_COLD);
        same!(Prctl: PR_SET_NAME PR_SET_PDEATHSIG PR_SET_NO_NEW_PRIVS PR_SET_SECCOMP);
        same!(Whence: SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE);
        same!(Wait: WNOHANG WUNTRACED WEXITED WCONTINUED WNOWAIT);
        same!(Limit: RLIMIT_CPU RLIMIT_NOFILE RLIMIT_STACK RLIMIT_MEMLOCK RLIMIT_AS);
        same!(Clock: CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_BOOTTIME CLOCK_PROCESS_CPUTIME_ID);
        same!(Ioctl: TCGETS TIOCGWINSZ FIONREAD FIONBIO);
        same!(Message: MSG_DONTWAIT MSG_NOSIGNAL MSG_PEEK MSG_WAITALL MSG_TRUNC);
        same!(Level: SOL_SOCKET);
        same!(SocketOption: SO_REUSEADDR SO_ERROR SO_KEEPALIVE SO_RCVBUF SO_PEERCRED);
        same!(Ptrace: PTRACE_TRACEME PTRACE_SEIZE PTRACE_CONT);
        same!(MountFlags: MS_RDONLY MS_NOSUID MS_BIND MS_REC MS_PRIVATE MS_REMOUNT);
        same!(Unmount: MNT_DETACH MNT_FORCE UMOUNT_NOFOLLOW);
        same!(Random: GRND_NONBLOCK GRND_RANDOM);
        same!(EventFd: EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE);
        same!(Memfd: MFD_CLOEXEC MFD_ALLOW_SEALING);
        same!(Rename: RENAME_NOREPLACE RENAME_EXCHANGE);
        same!(Inotify: IN_MODIFY IN_CREATE IN_DELETE_SELF IN_CLOSE_WRITE);
    }

    #[test]
    fn devices_of_the_kernel_are_two_numbers() {
        assert_eq!(text(Meaning::KernelDevice, 0x0fe0_0001), "254,1");
        // The greatest number of four bytes, and as a number with a sign.
        assert_eq!(text(Meaning::KernelDevice, 0xffff_ffff), "4095,1048575");
        assert_eq!(text(Meaning::KernelDevice, -1), "4095,1048575");
    }
}
