//! Files: how they are opened, what they are, locks.

use super::member::Show::{AnyMode, Device, FileSize, Named, Signed, Unsigned};
use super::member::structure;
use super::member::{Member, Structure};
use crate::syscall::Meaning;

/// `struct open_how`.
pub static OPEN_HOW: Structure = structure!(general::open_how [
    flags = flags: Named(Meaning::Open), mode = mode: AnyMode, resolve = resolve: Named(Meaning::Resolve),
]);
/// `struct stat`.
pub static STAT: Structure = structure!(general::stat [
    st_mode = st_mode: Named(Meaning::FileMode), st_size = st_size: FileSize, st_rdev = st_rdev: Device,
] "…");
/// `struct statx`, as far as it is shown.
pub static STATX: Structure = Structure {
    size: 0x70,
    ..structure!(general::statx [
        stx_mask = stx_mask: Named(Meaning::Statx), stx_attributes = stx_attributes: Named(Meaning::StatxAttributes), stx_mode = stx_mode: Named(Meaning::FileMode),
        stx_size = stx_size: Unsigned,
    ] "…")
};
/// `struct statfs`.
pub static STATFS: Structure = structure!(general::statfs [
    f_type = f_type: Named(Meaning::FileSystem), f_bsize = f_bsize: Signed, f_blocks = f_blocks: Signed, f_bfree = f_bfree: Signed, f_bavail = f_bavail: Signed,
] "…");
/// `struct flock`.
pub static FILE_LOCK: Structure = structure!(general::flock [
    l_type = l_type: Named(Meaning::LockType), l_whence = l_whence: Named(Meaning::Whence), l_start = l_start: Signed, l_len = l_len: Signed,
]);
/// `struct flock` of F_GETLK, which says who holds the lock.
pub static FILE_LOCK_HELD: Structure = structure!(general::flock [
    l_type = l_type: Named(Meaning::LockType), l_whence = l_whence: Named(Meaning::Whence), l_start = l_start: Signed, l_len = l_len: Signed,
    l_pid = l_pid: Signed,
]);
/// `struct f_owner_ex`.
pub static FILE_OWNER: Structure = Structure {
    size: 8,
    members: &[
        Member {
            name: "type",
            at: 0,
            size: 4,
            show: Named(Meaning::FileOwner),
        },
        Member {
            name: "pid",
            at: 4,
            size: 4,
            show: Signed,
        },
    ],
    more: false,
};
/// `struct winsize`.
pub static WINDOW: Structure = structure!(general::winsize [
    ws_row = ws_row: Unsigned, ws_col = ws_col: Unsigned, ws_xpixel = ws_xpixel: Unsigned, ws_ypixel = ws_ypixel: Unsigned,
]);

/// `struct mount_attr`.
pub static MOUNT: Structure = structure!(general::mount_attr [
    attr_set = attr_set: Named(Meaning::MountAttributes), attr_clr = attr_clr: Named(Meaning::MountAttributes),
    propagation = propagation: Named(Meaning::MountFlags), userns_fd = userns_fd: Signed,
]);
/// The kernel's `struct termios`.
pub static TERMINAL: Structure = structure!(general::termios [
    c_iflag = c_iflag: Named(Meaning::InputModes), c_oflag = c_oflag: Named(Meaning::OutputModes), c_cflag = c_cflag: Named(Meaning::ControlModes),
    c_lflag = c_lflag: Named(Meaning::LocalModes),
] "…");

#[cfg(test)]
pub(super) const ALL: &[&Structure] = &[
    &OPEN_HOW,
    &STAT,
    &STATX,
    &STATFS,
    &FILE_LOCK,
    &FILE_LOCK_HELD,
    &FILE_OWNER,
    &WINDOW,
    &MOUNT,
    &TERMINAL,
];
