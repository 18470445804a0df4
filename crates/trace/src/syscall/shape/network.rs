//! Values of options of sockets; their addresses differ by family and are no table.

use super::member::Show::{Signed, Unsigned};
use super::member::structure;
use super::member::{Member, Structure};

/// `struct linger`.
pub static LINGER: Structure =
    structure!(net::linger [l_onoff = l_onoff: Signed, l_linger = l_linger: Signed,]);

/// `struct ucred`.
pub static CREDENTIALS: Structure = Structure {
    size: 12,
    members: &[
        Member {
            name: "pid",
            at: 0,
            size: 4,
            show: Signed,
        },
        Member {
            name: "uid",
            at: 4,
            size: 4,
            show: Unsigned,
        },
        Member {
            name: "gid",
            at: 8,
            size: 4,
            show: Unsigned,
        },
    ],
    more: false,
};

#[cfg(test)]
pub(super) const ALL: &[&Structure] = &[&LINGER, &CREDENTIALS];
