//! Recordings of events that programs define themselves: what a program recorded of its own, what Kestrel recorded of one from outside, and marks.

use crate::command::{WorkFolder, has};
use kestrel_tracepoint::{Mode, Options, Recorder};
use std::path::Path;
use std::process::Command;

kestrel_tracepoint::events! {
    group damaged;

    event all(path: &str, body: &[u8]) {
        small: u8 = 200,
        path: str = path,
        negative: i16 = -2,
        ratio: f64 = 0.5,
        body: bytes = body,
        half: f32 = 1.25,
        yes: bool = true,
        peer: [u8; 4] = [127, 0, 0, 1],
        wide: [i64; 2] = [-1, i64::MAX],
        name: char[8] = "abcdefghij",
        place: usize = 0xbeef,
        second: str = "zwei",
    } print "{small} {path} {negative} {ratio} {body} {half} {yes} {peer} {wide} {name} {place:#x} {second}";
    event page(number: u64) { number: u64 = number, page: [u64; 400] = [number; 400] } print "{number}";
    event bare() {} print "nothing";
}

/// Records each of the events above in this process.
pub(super) fn record(folder: &Path) {
    kestrel_tracepoint::init().unwrap();
    let options = Options::new(folder, Mode::Stream).events("damaged:*");
    let recorder = Recorder::start(options).unwrap();
    for number in 0..40 {
        trace_all(&"path/".repeat(number), &[number as u8; 20]);
        trace_bare();
        if number % 4 == 0 {
            trace_page(number as u64);
        }
    }
    let recorded = recorder.stop().unwrap();
    assert_eq!((recorded.recorded, recorded.lost), (90, 0));
}

/// Records the events of a server in C, which are probes of its file, and marks where the kernel has probes for them.
pub(super) fn record_from_outside(place: &WorkFolder, folder: &Path) {
    let output = folder.to_string_lossy();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tracepoint");
    if has("gcc") {
        let built = Command::new("gcc")
            .arg("-I")
            .arg(tree.join("include"))
            .args(["-O2", "-o", "server"])
            .arg(tree.join("examples/server.c"))
            .current_dir(place.path())
            .status();
        assert!(built.unwrap().success());
        let events = "usdt:./server:server:*";
        let record = ["record", "-q", "-g", "-e", events, "-o"];
        let command = [&output, "--", "./server", "20", "4"];
        place.run(&[&record[..], &command].concat()).succeeds();
    } else {
        eprintln!("without a server: there is no gcc");
    }
    let output = format!("{output}-marks");
    let script = "echo a mark > /dev/kestrel-mark; printf 'text\\0a=1 b=\"two words\"' > /dev/kestrel-mark";
    let record = [
        "record", "-q", "-g", "-e", "mark", "-o", &output, "--", "sh", "-c", script,
    ];
    let marks = place.run(&record);
    if marks.code != Some(0) {
        assert!(marks.err.contains("EPERM"), "{}", marks.err);
        eprintln!("without marks: this kernel has no probes at its functions");
    }
}
