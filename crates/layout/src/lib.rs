//! The byte layout of a trace: pages that are packets, records in them, the metadata's text about both, print formats, and entries of the kernel's own tracer. Shared by what reads traces and by
//! what writes them, also in programs of users that take in nothing else of Kestrel; it needs no standard library.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod entry;
pub mod format;
pub mod packet;
pub mod record;
pub mod tsdl;
