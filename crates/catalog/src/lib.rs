//! Events of this kernel and its programs: kinds and fields, code, types and names, and how programs are attached to them.
#![forbid(unsafe_code)]

pub mod arch;
pub mod attach;
pub mod bounded_read;
pub mod catalog;
pub mod code;
pub mod debuginfo;
mod error;
pub mod executable;
pub mod facts;
pub mod symbols;
pub mod verifier;
pub mod waiting;

pub use error::{Error, Result, into_io};
