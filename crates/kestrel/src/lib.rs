//! Live tracing as a library: catalog, tables, handlers, buffers, plans and sessions; it never prints and parses no arguments.
#![forbid(unsafe_code)]

pub mod agent;
pub mod arch;
pub mod bpf;
pub mod buffer;
pub mod catalog;
pub mod code;
pub mod dump;
mod error;
pub mod facts;
pub mod foreign;
pub mod hook;
pub mod live;
pub mod plan;
pub mod probe;
pub mod record;
pub mod recover;
mod review;
pub mod session;
mod symbols;
pub mod table;
mod verifier;
mod waiting;
pub mod watch;

pub use error::{Error, Result};

/// The kernel as a safe API, for those who need more of it than a session.
pub use kestrel_kernel as kernel;

/// What the language says about a text: diagnostics, and how they are shown.
pub mod language {
    pub use kestrel_compiler::lang::diag::{Diagnostic, Style, render};
}
