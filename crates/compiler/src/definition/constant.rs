//! Numbers that headers name by `#define`, which BTF does not know.

use kestrel_trace::syscall::{error_number, named_number, system_call};

/// Names that no family of system calls' arguments has.
const OTHERS: &[(&str, i64)] = &[
    ("CHAR_MAX", 127),
    ("SHRT_MAX", 32767),
    ("USHRT_MAX", 65535),
    ("INT_MAX", 0x7fff_ffff),
    ("INT_MIN", -0x8000_0000),
    ("UINT_MAX", 0xffff_ffff),
    ("LONG_MAX", i64::MAX),
    ("LONG_MIN", i64::MIN),
    ("S32_MAX", 0x7fff_ffff),
    ("U32_MAX", 0xffff_ffff),
    ("S64_MAX", i64::MAX),
    ("MSEC_PER_SEC", 1_000),
    ("USEC_PER_SEC", 1_000_000),
    ("USEC_PER_MSEC", 1_000),
    ("NSEC_PER_SEC", 1_000_000_000),
    ("NSEC_PER_MSEC", 1_000_000),
    ("NSEC_PER_USEC", 1_000),
    ("S_IFMT", 0o170_000),
    ("S_IFSOCK", 0o140_000),
    ("S_IFLNK", 0o120_000),
    ("S_IFREG", 0o100_000),
    ("S_IFBLK", 0o060_000),
    ("S_IFDIR", 0o040_000),
    ("S_IFCHR", 0o020_000),
    ("S_IFIFO", 0o010_000),
    ("PATH_MAX", 4096),
    ("NAME_MAX", 255),
    ("IFNAMSIZ", 16),
    ("TASK_COMM_LEN", 16),
    ("TASK_RUNNING", 0),
    ("TASK_INTERRUPTIBLE", 1),
    ("TASK_UNINTERRUPTIBLE", 2),
    ("MAX_ERRNO", 4095),
    ("NUMA_NO_NODE", -1),
    ("SECTOR_SHIFT", 9),
    ("SECTOR_SIZE", 512),
    ("INADDR_ANY", 0),
    ("INADDR_LOOPBACK", 0x7f00_0001),
    ("ETH_ALEN", 6),
    ("ETH_P_IP", 0x0800),
    ("ETH_P_ARP", 0x0806),
    ("ETH_P_8021Q", 0x8100),
    ("ETH_P_IPV6", 0x86dd),
];

/// More than there are system calls.
const MAX_CALLS: i32 = 1024;

/// The number of a name that the kernel's headers define: `AF_INET`, `O_CLOEXEC`, `ENOENT`.
///
/// ```
/// use kestrel_compiler::definition::constant;
/// assert_eq!((constant("AF_INET6"), constant("ENOENT"), constant("S_IFDIR")), (Some(10), Some(2), Some(0o40000)));
/// assert_eq!(constant("AF_NOWHERE"), None);
/// assert!(constant("__NR_read").is_some() && constant("__NR_nothing").is_none());
/// ```
pub fn constant(name: &str) -> Option<i64> {
    let other = || {
        OTHERS
            .iter()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| *value)
    };
    let call = || {
        let call = name.strip_prefix("__NR_").or_else(|| name.strip_prefix("SYS_"))?;
        (0..MAX_CALLS)
            .find(|number| system_call(*number) == call)
            .map(i64::from)
    };
    named_number(name)
        .or_else(|| error_number(name))
        .or_else(other)
        .or_else(call)
}
