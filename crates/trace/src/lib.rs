//! A trace as data: types, layouts, decoding, CTF, analysis and export; it never touches a kernel, so it runs on any machine.
#![forbid(unsafe_code)]

pub mod event;
pub mod layout;
pub mod packet;
