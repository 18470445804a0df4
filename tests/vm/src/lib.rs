//! Tests that run inside guests of the kernel matrix; `cargo xtask test` builds and sends them.
