//! The `kestrel` command: words on a terminal.
#![forbid(unsafe_code)]

fn main() {}
