//! Built-ins about addresses: their address space (`kptr`, `uptr`), and symbols.

pub(super) mod kaddr;
pub(super) mod kptr;
pub(super) mod ksym;
pub(super) mod percpu_kaddr;
pub(super) mod socket_cookie;
mod space;
mod symbol;
pub(super) mod uaddr;
pub(super) mod uptr;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[
    &kaddr::KADDR,
    &percpu_kaddr::PERCPU_KADDR,
    &kptr::KPTR,
    &ksym::KSYM,
    &socket_cookie::SOCKET_COOKIE,
    &uaddr::UADDR,
    &uptr::UPTR,
];
