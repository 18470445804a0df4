//! Live tracing as a library: catalog, tables, handlers, buffers, plans and sessions; it never prints and parses no arguments.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod catalog;
mod error;

pub use error::{Error, Result};
