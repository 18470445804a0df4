//! Built-ins that say what an address is: whose memory it is in, or that it has a symbol.

pub(super) mod kaddr;
pub(super) mod kptr;
pub(super) mod ksym;
mod space;
pub(super) mod uptr;

use super::row::Builtin;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&kaddr::KADDR, &kptr::KPTR, &ksym::KSYM, &uptr::UPTR];
