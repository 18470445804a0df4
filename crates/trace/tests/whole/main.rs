//! The room as its neighbours see it: pages built byte by byte, written, read back, printed, and shown to babeltrace2.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "tests")]

mod arbitrary;
mod attacks;
mod babeltrace;
mod browser;
mod converting;
mod ctf2;
mod images;
mod importers;
mod importing;
mod lines;
mod lttng;
mod lttng_sessions;
mod lttng_streams;
mod merging;
mod metadata;
mod packed;
mod reading;
mod recovering;
mod renaming;
mod rewriting;
mod sample;
mod sealing;
mod stack_pieces;
mod values;
mod writing;

use testkit::pages;
