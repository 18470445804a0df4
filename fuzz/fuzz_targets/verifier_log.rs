//! Any text as the verifier's log.
#![no_main]

use kestrel_bpf::verifier_log::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let printed = parse(text);
    _ = printed.explanation();
    for number in 0..=u8::MAX {
        _ = printed.register(number);
    }
});
