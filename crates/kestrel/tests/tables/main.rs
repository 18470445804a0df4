//! Table files on a kernel that is a folder of files: which handler each event has in which table, hook by hook.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests"
)]

mod kernel;
mod loading;
mod reading;
mod resolving;
