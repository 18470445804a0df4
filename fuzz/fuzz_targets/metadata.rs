//! Any text as a trace's metadata; what is taken can be written, and reads the same then; records of its classes can be shown, whatever their bytes.
#![no_main]

use kestrel_trace::ctf::metadata::{parse, text};
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::EventClass;
use kestrel_trace::print::{JsonStyle, Style, json, styled};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::Summary;
use kestrel_trace::symbol::Symbols;
use libfuzzer_sys::fuzz_target;

/// Shows the values of a record of a class, out of any bytes.
fn show(event: &EventClass, bytes: &[u8]) {
    let mut bytes = [&event.id.0.to_le_bytes()[..], bytes].concat();
    bytes.resize(
        bytes
            .len()
            .max(event.layout.fixed_end().min(1 << 16) as usize + 8),
        0,
    );
    let table = EventTable::new([event.clone()]);
    let Ok(record) = table.record(&bytes, 0, 0) else {
        return;
    };
    let (symbols, mut out) = (Symbols::default(), Vec::new());
    for (_, value) in record.fields() {
        for style in [Style::RECORD, Style::BPFTRACE] {
            styled(value, style, &symbols, &mut out);
        }
        for style in [JsonStyle::Record, JsonStyle::BPFTRACE] {
            out.clear();
            json(value, style, &symbols, &mut out);
        }
    }
}

fuzz_target!(|given: &str| {
    _ = (
        Symbols::parse(given),
        Processes::parse(given),
        Summary::parse(given),
    );
    let Ok(info) = parse(given) else {
        return;
    };
    for event in &info.events {
        show(event, given.as_bytes());
    }
    if let Ok(written) = text(&info) {
        let again = parse(&written).expect("what we wrote ourselves");
        assert_eq!(text(&again).expect("it was written before"), written);
    }
});
