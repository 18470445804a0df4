//! Structures that system calls point to: which members are shown and how, and the macro for tables of them. Offsets and sizes are those of the headers' own
//! structures.

use crate::syscall::Meaning;

/// Form in which a member is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Show {
    /// A signed number: `-1`.
    Signed,
    /// An unsigned number: `42`.
    Unsigned,
    /// A number in hexadecimal: `0x2a`.
    Bits,
    /// A number as a name or flags: `S_IFREG`.
    Named(Meaning),
    /// An address.
    Pointer,
    /// An address; the member is left out where it is null.
    AnyPointer,
    /// A mode; the member is left out where it is 0, because no file is created.
    AnyMode,
    /// Text up to its NUL.
    Text,
    /// A structure inside the structure.
    Inside(&'static Structure),
    /// A set of signals.
    Signals,
    /// A resource limit, where the highest number means no limit: `8192*1024`.
    Limit,
    /// The data that epoll gives back with an event: `{u32=3, u64=3}`.
    EventData,
    /// The number of a device, left out where the file is none: `makedev(0x1, 0x3)`.
    Device,
    /// The size of a file, left out where it is a device.
    FileSize,
    /// The handler of a signal: `SIG_IGN`, or an address.
    Handler,
    /// The data that comes with a signal, left out where it is 0: `{sival_int=3, sival_ptr=0x3}`.
    SignalData,
    /// An array of words: `[1, 2, 3]`.
    Words,
}

/// A structure and the members of it that are shown; a row of the tables.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Structure {
    /// Size in bytes, as far as it is read.
    pub size: usize,
    /// The members that are shown.
    pub members: &'static [Member],
    /// Whether it has other members, which are not shown.
    pub more: bool,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The name that the manual pages have.
    pub name: &'static str,
    /// The offset in bytes.
    pub at: usize,
    /// The size in bytes.
    pub size: usize,
    /// How it is shown.
    pub show: Show,
}

/// Size of the member that a function takes out of a structure; the macro uses it because Rust has no `sizeof` of a member.
pub(super) const fn size_of_member<T, M>(_: fn(T) -> M) -> usize {
    std::mem::size_of::<M>()
}

/// `structure!(MODULE::TYPE [member = name in headers: how, …])`; with `…` behind where there are other members.
macro_rules! structure {
    ($module:ident::$structure:ident [$($name:ident = $member:ident: $show:expr,)*] $($more:literal)?) => {
        $crate::syscall::shape::Structure {
            size: std::mem::size_of::<linux_raw_sys::$module::$structure>(),
            members: &[$($crate::syscall::shape::Member {
                name: stringify!($name),
                at: std::mem::offset_of!(linux_raw_sys::$module::$structure, $member),
                size: $crate::syscall::shape::member::size_of_member(|it: linux_raw_sys::$module::$structure| it.$member),
                show: $show,
            },)*],
            more: false $(|| { let _ = $more; true })?,
        }
    };
}
pub(super) use structure;
