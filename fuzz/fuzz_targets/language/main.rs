//! Any text as an event or a script, see `look`.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod look;

fuzz_target!(|text: &str| look::at(text));
