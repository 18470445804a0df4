//! Generated programs run in the interpreter; what they recorded is read back by the trace crate's decoder.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod flow;
mod memory;
mod record;
mod stack;
mod string;

use kestrel_trace::layout::FieldType;

const KERNEL: u64 = 0xffff_8880_1000_0000;
const USER: u64 = 0x7f00_0000_1000;

fn text(size: u32) -> FieldType {
    FieldType::CharArray { size }
}
