//! Any text as a trace's metadata; what is taken can be written, and reads the same then.
#![no_main]

use kestrel_trace::ctf::metadata::{parse, text};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::Summary;
use kestrel_trace::symbol::Symbols;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|given: &str| {
    _ = (
        Symbols::parse(given),
        Processes::parse(given),
        Summary::parse(given),
    );
    let Ok(info) = parse(given) else {
        return;
    };
    if let Ok(written) = text(&info) {
        let again = parse(&written).expect("what we wrote ourselves");
        assert_eq!(text(&again).expect("it was written before"), written);
    }
});
