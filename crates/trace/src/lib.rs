//! A trace as data: types, layouts, decoding, CTF, analysis and export; it never touches a kernel, so it runs on any machine.
#![forbid(unsafe_code)]

pub mod analyze;
pub mod ctf;
pub mod decode;
mod error;
pub mod event;
pub mod info;
pub mod layout;
pub mod packet;
pub mod print;
pub mod process;
pub mod record;
pub mod report;
pub mod summary;
pub mod symbol;
pub mod value;

pub use error::{Error, Result};
