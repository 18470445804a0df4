//! Any text as the format file of a tracepoint: fields, sizes, the names of values.
#![no_main]

use kestrel_kernel::tracefs::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(format) = Format::parse(text) else {
        return;
    };
    _ = format.size();
    for field in &format.fields {
        _ = field.is_array();
        _ = format.labels(&field.name);
        _ = format.labels_with(&field.name, &|name| Some(name.len() as i64));
        assert!(format.field(&field.name).is_some());
    }
});
