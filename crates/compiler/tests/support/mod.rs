//! Helpers of the tests of generated code: short spellings of checked trees, a context, a sink; no test stands here.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    reason = "each test file uses its own part"
)]

pub mod bump;
pub mod run;
pub mod steered;
pub mod tree;
