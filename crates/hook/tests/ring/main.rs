//! The ring in the interpreter: its generated writer and its reader, with interrupts between any two instructions; no kernel.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "tests")]

mod bell;
mod borrow;
mod dispatch;
mod nesting;
mod reader;
mod snapshot;
mod support;
mod watch;
mod writer;
