//! Any bytes as a recording of another tool: a file of perf's or trace-cmd's, metadata and a stream of Common Trace Format. The first byte says which; behind it stands the file, so that its
//! beginning need not be guessed.
#![no_main]

use kestrel_trace::import::open;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = Path::new("/dev/shm").join(format!("kestrel-fuzz-{}", std::process::id()));
    fs::create_dir_all(place.join("trace")).expect("memory");
    place
});

fn digest(path: &Path) {
    let Ok(mut trace) = open(path) else { return };
    while let Ok(Some(record)) = trace.reader.next() {
        _ = record.fields().count();
    }
    _ = trace.reader.losses();
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let file = PLACE.join("file");
    let with = |magic: &[u8]| {
        fs::write(&file, [magic, rest].concat()).expect("memory");
        digest(&file);
    };
    match kind % 3 {
        0 => with(b"PERFILE2"),
        1 => with(b"\x17\x08\x44tracing"),
        _ => {
            // Metadata, a NUL, and a stream.
            let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            let trace = PLACE.join("trace");
            fs::write(trace.join("metadata"), &rest[..end]).expect("memory");
            fs::write(trace.join("stream"), rest.get(end + 1..).unwrap_or_default()).expect("memory");
            digest(&trace);
        }
    }
});
