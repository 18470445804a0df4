//! Tests that run inside guests of the kernel matrix: the words that guest tests share, and the messages between guest
//! and host; `cargo xtask test` builds and sends them.
#![forbid(unsafe_code)]

pub mod protocol;
