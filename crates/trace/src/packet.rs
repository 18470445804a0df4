//! The byte shape of one ring page: `kestrel-layout` has it, for it is also that of rings in users' own programs.

pub use kestrel_layout::packet::*;
