//! Foreign bytes never panic.

use crate::metadata::any_event;
use crate::sample;
use crate::writing::sealed;
use kestrel_trace::ctf::metadata::{parse, text};
use kestrel_trace::ctf::packet::{Packet, seal};
use kestrel_trace::ctf::pages::metadata_text;
use kestrel_trace::ctf::read::Reader;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::EventClass;
use kestrel_trace::export::{Export, Json, Style, Text};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::{HEADER, PAGE};
use kestrel_trace::process::Processes;
use kestrel_trace::report::{Options, Report};
use kestrel_trace::summary::Summary;
use kestrel_trace::symbol::Symbols;
use proptest::prelude::*;

/// Reads, prints and reports bytes as a stream.
fn digest(events: &[EventClass], bytes: &[u8]) {
    let info = || TraceInfo {
        events: events.to_vec(),
        ..sample::info()
    };
    let mut reader = Reader::new(info(), vec![("main_0".into(), bytes)]);
    let mut printer = Text::new(Style::default(), sample::symbols(), Processes::default());
    let mut json = Json::new(Symbols::default(), Processes::default());
    let mut lines = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        printer.record(&record, &mut lines);
        lines.clear();
        json.record(&record, &mut lines);
        let line: Result<serde_json::Value, _> = serde_json::from_slice(&lines);
        assert!(line.is_ok(), "{}", String::from_utf8_lossy(&lines));
        lines.clear();
    }
    let mut reader = Reader::new(info(), vec![("main_0".into(), bytes)]);
    let report = Report::read(&mut reader, Options::default()).unwrap();
    kestrel_trace::report::text(&report, 80, false);
}

fn changed(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_as_pages(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        digest(&sample::info().events, &bytes);
        for page in bytes.chunks(PAGE as usize) {
            _ = Packet::parse(page);
            _ = metadata_text([page], sample::UUID);
        }
    }

    #[test]
    fn any_records_in_a_sound_page(
        mut event in any_event(),
        bytes in prop::collection::vec(any::<u8>(), (PAGE - HEADER) as usize),
    ) {
        let mut page = sample::streams(300).remove(0).ring.pages[0];
        page[HEADER as usize..].copy_from_slice(&bytes);
        event.id.0 = u16::from_le_bytes([bytes[0], bytes[1]]);
        digest(std::slice::from_ref(&event), &page);
        // Sealed as partial: whatever is kept can be read.
        page[80..88].copy_from_slice(&[0, 8, 0, 0, 9, 0, 0, 0]);
        let table = EventTable::new([event.clone()]);
        let sealed = seal(&mut page, &table).unwrap();
        let packet = Packet::parse(&page).unwrap();
        prop_assert_eq!(packet.records(&table).filter(Result::is_ok).count(), sealed.events as usize);
        digest(&[event], &page);
    }

    #[test]
    fn a_sound_stream_with_changed_bytes(changes in changes()) {
        let bytes = sealed(&mut sample::streams(60).remove(0).ring);
        digest(&sample::info().events, &changed(bytes, &changes));
    }

    #[test]
    fn metadata_with_changed_bytes(changes in changes(), cut in any::<prop::sample::Index>()) {
        let sound = text(&sample::info()).unwrap();
        let bytes = changed(sound.clone().into_bytes(), &changes);
        _ = parse(&String::from_utf8_lossy(&bytes));
        _ = parse(&String::from_utf8_lossy(&bytes[..cut.index(bytes.len())]));
    }

    #[test]
    fn any_text_as_metadata(text in "(\\PC|[{}\\[\\]:=;.\"\\\\]|struct |event |enum |[0-9])*") {
        _ = parse(&text);
        _ = Symbols::parse(&text);
        _ = Processes::parse(text.as_bytes());
        _ = Summary::parse(&text);
    }
}
