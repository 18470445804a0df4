//! Live tracing as a library: catalog, tables, handlers, buffers, plans and sessions; it never prints and parses no arguments.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod catalog;
mod error;
pub mod plan;
pub mod record;
pub mod session;

pub use error::{Error, Result};
