//! Random programs over all types: what the interpreter stores is what was computed without a compiler. `cargo xtask random` runs the same programs in the kernel, and
//! beside bpftrace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
#[path = "support/maps.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod sharing;
mod support;

use sharing::Maps;
use testkit::programs::piece;

/// Programs of one run: a few seconds.
const PROGRAMS: u64 = 2000;

#[test]
fn values_are_those_computed_without_a_compiler() {
    let first: u64 = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0);
    for seed in first..first + PROGRAMS {
        let piece = piece(seed, false);
        let text = format!("{{ {}@ = {}; }}", piece.statements, piece.value);
        let mut made = Maps::program(&[&text]);
        made.run(0, 0, &[0, 0, 0]);
        assert_eq!(
            made.text(""),
            format!("@: {}\n", piece.expected),
            "seed {seed}: {text}"
        );
    }
}
