//! Numbers that stand for names which only the reader knows, and their bytes: symbols, addresses of networks, dates, users, groups, errors, signals.

use serde::{Deserialize, Serialize};

/// A number, or a few bytes, shown by a name that is looked up by the reader. Integers are little-endian.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Named {
    /// 8 bytes: an address of the kernel, shown as the symbol that it lies in (`ksym`): `vfs_read`.
    KernelSymbol,
    /// 16 bytes: an address of a process (8), the process's number (4), zero (4); shown as the function that it lies in (`usym`): `main`.
    UserSymbol,
    /// 20 bytes: the address family (4; 2 for IPv4, 10 for IPv6), the address in the network's order (16; an address of IPv4 in the first 4, then zeroes):
    /// `127.0.0.1`, `::1` (`ntop`).
    Inet,
    /// 6 bytes: `00:1b:21:3c:9d:f8` (`macaddr`).
    Mac,
    /// 8 bytes: ns of a clock, shown in the reader's time zone by a format of strftime(3), in which `%f` is for microseconds.
    Date {
        /// Clock that the number is of.
        clock: DateClock,
        /// Format of the date, as strftime takes it.
        format: String,
    },
    /// 8 bytes: the number of a control group, shown as its path in each hierarchy: `unified:/user.slice` (`cgroup_path`).
    Cgroup {
        /// A pattern of the names of hierarchies that are wanted; empty for all.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hierarchies: String,
    },
    /// 4 bytes: the number of a user (`username`).
    User,
    /// 4 bytes, signed: the number of an error: `No such file or directory` (`strerror`).
    Error,
    /// 4 bytes: the number of a signal: `SIGKILL` (`signal_name`).
    Signal,
    /// 4 bytes: the number of a system call: `openat` (`syscall_name`).
    SystemCall,
}

/// A clock whose times are shown as dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DateClock {
    /// Since the machine was started, sleep included: the clock of `nsecs`.
    Boot,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// Since 1970, in international atomic time.
    Atomic,
    /// Nanoseconds since 1970.
    Real,
}

impl Named {
    /// Size and alignment.
    pub fn shape(&self) -> (u32, u32) {
        match self {
            Self::KernelSymbol | Self::Date { .. } | Self::Cgroup { .. } => (8, 8),
            Self::UserSymbol => (16, 8),
            Self::Inet => (20, 4),
            Self::Mac => (6, 1),
            Self::User | Self::Error | Self::Signal | Self::SystemCall => (4, 4),
        }
    }
}
