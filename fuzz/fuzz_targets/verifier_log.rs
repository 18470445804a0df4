//! Any text as the verifier's log.
#![no_main]

use kestrel_bpf::verifier_log::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let said = parse(text);
    _ = said.explanation();
    for number in 0..=u8::MAX {
        _ = said.register(number);
    }
});
