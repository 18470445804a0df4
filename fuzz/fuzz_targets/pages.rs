//! Any bytes as pages of a trace: taken as they come, and as records in pages whose headers are sound.
#![no_main]

use kestrel_trace::ctf::metadata::parse;
use kestrel_trace::ctf::packet::{Packet, Page, seal};
use kestrel_trace::ctf::pages::metadata_text;
use kestrel_trace::ctf::read::Reader;
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::{CAPACITY, HEADER, MAGIC, PAGE, SEALED, offset};
use kestrel_trace::export::{Export, Json, Style, Text};
use kestrel_trace::process::Processes;
use kestrel_trace::report::{self, Report};
use kestrel_trace::symbol::Symbols;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The trace that the reader's own tests read.
static INFO: LazyLock<TraceInfo> = LazyLock::new(|| {
    parse(include_str!("../../crates/trace/tests/golden/metadata")).expect("a file of our own")
});

/// Pages that hold these bytes behind headers without errors.
fn pages(data: &[u8]) -> Vec<Page> {
    let page = |(number, content): (usize, &[u8])| {
        let mut page: Page = [0; PAGE as usize];
        let mut put = |at: u32, bytes: &[u8]| page[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(offset::MAGIC, &MAGIC.to_le_bytes());
        put(offset::UUID, &INFO.uuid.0);
        put(offset::TIMESTAMP_END, &(u64::MAX >> 8).to_le_bytes());
        put(offset::CONTENT_SIZE, &(u64::from(PAGE) * 8).to_le_bytes());
        put(offset::PACKET_SIZE, &(u64::from(PAGE) * 8).to_le_bytes());
        put(offset::SEQUENCE, &(number as u64).to_le_bytes());
        put(offset::COMMITTED, &u64::from(CAPACITY + SEALED).to_le_bytes());
        put(HEADER, content);
        page
    };
    data.chunks(CAPACITY as usize).enumerate().map(page).collect()
}

fn digest(bytes: &[u8]) {
    let reader = || Reader::new(INFO.clone(), vec![("main_0".into(), bytes)]);
    let mut text = Text::new(Style::default(), Symbols::default(), Processes::default());
    let mut json = Json::new(Symbols::default(), Processes::default());
    let mut all = reader();
    let mut lines = Vec::new();
    while let Ok(Some(record)) = all.next() {
        text.record(&record, &mut lines);
        json.record(&record, &mut lines);
        lines.clear();
    }
    if let Ok(report) = Report::read(&mut reader(), report::Options::default()) {
        report::text(&report, 80, false);
    }
}

fuzz_target!(|data: &[u8]| {
    digest(data);
    _ = metadata_text(data.chunks(PAGE as usize), INFO.uuid);
    let sound = pages(data);
    digest(&sound.concat());
    let events = EventTable::new(INFO.events.iter().cloned());
    for mut page in sound {
        // As a page that is still being written. Whatever sealing keeps can be read.
        let committed = 8u64 | 9 << 32;
        page[offset::COMMITTED as usize..][..8].copy_from_slice(&committed.to_le_bytes());
        if let Ok(sealed) = seal(&mut page, &events) {
            let packet = Packet::parse(&page).expect("a page that was just sealed");
            let kept = packet.records(&events).filter(Result::is_ok).count();
            assert_eq!(kept, sealed.events as usize);
        }
    }
});
