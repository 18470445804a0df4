//! The project's own chores: guests, tests, benchmarks, demo, tidy.

fn main() {}
