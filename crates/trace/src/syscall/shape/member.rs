//! A member of a structure, and how tables say it: the place is that of the headers' own structure.

use crate::syscall::Meaning;

/// Format of a number in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Show {
    /// `-1`.
    Signed,
    /// `42`.
    Unsigned,
    /// `0x2a`.
    Bits,
    /// By names.
    Named(Meaning),
    /// An address.
    Pointer,
    /// An address, which is not shown where it is none.
    AnyPointer,
    /// A mode, which is not shown where it is 0: nothing is made.
    AnyMode,
    /// Text up to its NUL.
    Text,
    /// A structure in it.
    Inside(&'static Structure),
    /// A set of signals.
    Signals,
    /// A limit, of which the highest number is none: `8192*1024`.
    Limit,
    /// What comes back with an event: `{u32=3, u64=3}`.
    EventData,
    /// `makedev(0x1, 0x3)`, where the file is a device.
    Device,
    /// Bytes, where the file is no device.
    FileSize,
    /// What a signal does: `SIG_IGN`, or an address.
    Handler,
    /// What comes back with a signal, not shown where it is 0: `{sival_int=3, sival_ptr=0x3}`.
    SignalData,
    /// Words: `[1, 2, 3]`.
    Words,
}

/// A structure: a row of the tables.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Structure {
    /// The bytes, up to the last member that is shown.
    pub size: usize,
    /// The members that are shown.
    pub members: &'static [Member],
    /// Whether there are others.
    pub more: bool,
}

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The name that the manual pages have.
    pub name: &'static str,
    /// The offset in bytes.
    pub at: usize,
    /// The bytes.
    pub size: usize,
    /// The format.
    pub show: Show,
}

/// The bytes of what a function takes out of a structure.
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
