//! The code and memory around a handler in the kernel: ring buffers, hooks, and the table files that declare them; nothing is attached here.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod hook;
pub mod table;
