//! A trace as data: types, layouts, decoding, CTF, analysis and export; it never touches a kernel, so it runs on any machine.
//!
//! A record is decoded by its event class's layout; records come from CTF packets, which come from a trace directory or from
//! a ring's pages as they are:
//!
//! ```no_run
//! use kestrel_trace::ctf::directory;
//!
//! let mut trace = directory::open("kestrel.trace".as_ref())?;
//! while let Some(record) = trace.reader.next()? {
//!     if let Some(pid) = record.get("next_pid").and_then(|value| value.as_u64()) {
//!         println!("{} ns: {} {pid}", record.time_ns, record.event.name);
//!     }
//! }
//! # Ok::<(), kestrel_trace::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod about;
pub mod action;
pub mod aggregate;
pub mod analyze;
pub mod browser;
pub mod calls;
pub mod convert;
pub mod ctf;
pub mod date;
pub mod decode;
mod error;
pub mod escape;
pub mod event;
pub mod event_kind;
pub mod export;
pub mod files;
pub mod image;
pub mod import;
pub mod info;
pub mod layout;
pub mod names;
pub mod output;
pub mod packet;
pub mod print;
pub mod process;
pub mod record;
pub mod recover;
pub mod report;
pub mod sched;
pub mod stack_pieces;
pub mod stacks;
pub mod summary;
pub mod symbol;
pub mod syscall;
pub mod tasks;
pub mod unwound;
pub mod user_files;
pub mod user_symbol;
pub mod value;

pub use error::{Error, Result};
