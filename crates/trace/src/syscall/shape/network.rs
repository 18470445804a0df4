//! Values of options of sockets; their addresses differ by family and are no table.

use super::member::Show::Signed;
use super::member::Structure;
use super::member::structure;

/// `struct linger`.
pub static LINGER: Structure =
    structure!(net::linger [l_onoff = l_onoff: Signed, l_linger = l_linger: Signed,]);

pub(super) const ALL: &[&Structure] = &[&LINGER];
