//! What stands around a handler in the kernel, as bytes and code: rings, hooks, and the table files that ask for them; nothing here attaches anything.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod hook;
pub mod table;
