//! The structures that arguments of system calls point to, one table row for each, with the members that are shown.

mod event;
mod file;
mod member;
mod narrow;
mod network;
mod process;
mod signal;
mod time;

pub use member::{Member, Show, Structure};
pub(super) use narrow::narrow;

/// Shape of the memory that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A structure with these members.
    Members(&'static Structure),
    /// One number: `[4]`.
    Number(u8, Show),
    /// Two descriptors: `[3, 4]`.
    Pair,
    /// The address of a socket, whose form depends on its family.
    SocketAddress,
    /// A set of signals: `[INT USR1]`.
    Signals,
    /// The exit status of a process.
    WaitStatus,
    /// An array of addresses of strings, up to a null pointer: `argv`.
    Strings(Width),
    /// An array of addresses of strings, of which only the number is shown: `envp`.
    TextCount(Width),
    /// An array of addresses and lengths of buffers: `struct iovec`.
    Vectors(Width),
    /// `struct msghdr`.
    Message(Width),
    /// An array of `struct mmsghdr`, of which the first is read.
    Messages(Width),
    /// A set of descriptors below the first argument: `[3 4]`.
    Descriptors,
    /// A set of processors: `[0 2]`.
    Processors,
    /// Why a signal comes: `siginfo_t`.
    SignalInfo(Width),
    /// The argument of fcntl(2), whose form depends on the command.
    FileControl(Width),
    /// The argument of ioctl(2), whose form depends on the request.
    DeviceControl,
}

/// Width of addresses and of a `long`, by the interface through which a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 64 bits: the kernel's own interface.
    Wide,
    /// 32 bits: that of 32-bit programs.
    Narrow,
}

impl Width {
    /// Bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Wide => 8,
            Self::Narrow => 4,
        }
    }

    /// Most strings of an argument vector that are recorded: fewer of 32-bit programs, as each makes the program longer that all calls go through.
    pub const fn strings(self) -> usize {
        match self {
            Self::Wide => 16,
            Self::Narrow => 4,
        }
    }

    /// Most buffers of a vector that are recorded.
    pub const fn vectors(self) -> usize {
        match self {
            Self::Wide => 4,
            Self::Narrow => 2,
        }
    }

    /// The address or the `long` at a place in bytes.
    pub fn read(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = bytes.get(at..)?;
        Some(match self {
            Self::Wide => u64::from_le_bytes(*bytes.first_chunk()?),
            Self::Narrow => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
        })
    }
}

pub use event::{EPOLL_EVENT, POLL, RING};
pub use file::{
    FILE_LOCK, FILE_LOCK_HELD, FILE_OWNER, MOUNT, OPEN_HOW, STAT, STATFS, STATX, TERMINAL, WINDOW,
};
pub use narrow::{FILE_LOCK_32, FILE_LOCK_64};
pub use network::{CREDENTIALS, LINGER};
pub use process::{
    CAPABILITIES, CLONE, LIMIT, NAMES, SCHEDULING, SCHEDULING_MORE, SEMAPHORE, SYSTEM, TIMES, USAGE,
};
pub use signal::{ACTION, ALTERNATE, EVENT};
pub use time::{CLOCK, INTERVAL, INTERVAL_OLD, TIME, TIME_OLD};

/// Most bytes of an argument's memory that are recorded.
pub const MAX: u32 = 255;
/// Most bytes of a buffer that are shown, as with strace.
pub const BUFFER: u32 = 32;
/// Most bytes of a socket's address that are recorded: more than any has but those of packet filters.
pub const ADDRESS: u32 = 127;
/// Most bytes of each text of an argument vector.
pub const TEXT_BYTES: u32 = 63;
/// Most bytes of the addresses of an environment that are recorded, for counting them.
pub(crate) const COUNTED: u32 = 1016;
/// Index of the part of a message that has its control messages: behind its name and its vector, before the buffers.
pub const CONTROL: usize = 3;

impl Shape {
    /// Size in bytes of one element.
    pub fn size(self) -> u32 {
        match self {
            Self::Members(structure) => structure.size as u32,
            Self::Number(size, _) => u32::from(size),
            Self::Pair | Self::Signals => 8,
            Self::Strings(width) | Self::TextCount(width) => width.bytes() as u32,
            Self::WaitStatus => 4,
            Self::SocketAddress => ADDRESS,
            Self::Descriptors => 128,
            Self::Vectors(width) => 2 * width.bytes() as u32,
            Self::Message(width) => 7 * width.bytes() as u32,
            Self::Messages(width) => 8 * width.bytes() as u32,
            // The largest that a command takes: see `Length::Lock` for others.
            Self::FileControl(Width::Wide) => 32,
            Self::FileControl(Width::Narrow) => 24,
            // Of one that is no terminal's, see `Length::Request`.
            Self::DeviceControl => TERMINAL.size as u32,
            Self::Processors => 1,
            Self::SignalInfo(_) => 48,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All structures.
    const STRUCTURES: &[&[&Structure]] = &[
        event::ALL,
        file::ALL,
        network::ALL,
        process::ALL,
        signal::ALL,
        time::ALL,
    ];

    #[test]
    fn members_lie_inside_of_their_structures() {
        for structure in STRUCTURES.iter().flat_map(|all| all.iter()) {
            assert!(structure.size as u32 <= MAX, "{structure:?}");
            for member in structure.members {
                assert!(member.at + member.size <= structure.size, "{member:?}");
            }
        }
        assert_eq!((STAT.size, POLL.size, TIME.size), (144, 8, 16));
        assert_eq!(EPOLL_EVENT.size, std::mem::size_of::<libc::epoll_event>());
    }
}
