//! Any bytes as a packed stream: as they are, and as the body of a block whose headers are sound.
#![no_main]

use kestrel_trace::ctf::block::{LEVEL, Packer};
use kestrel_trace::ctf::metadata::parse;
use kestrel_trace::ctf::packed::{Unpacked, count_packets};
use kestrel_trace::ctf::read::Reader;
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::{CAPACITY, HEADER, MAGIC, PAGE, SEALED};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use std::sync::LazyLock;

/// The trace that the reader's own tests read.
static INFO: LazyLock<TraceInfo> = LazyLock::new(|| {
    parse(include_str!("../../crates/trace/tests/golden/metadata")).expect("a file of our own")
});

fn digest(file: &[u8]) {
    _ = count_packets(&mut Cursor::new(file));
    for (within, heads) in [(0..=u64::MAX, false), (1000..=2000, false), (0..=u64::MAX, true)] {
        let input = Unpacked::new(Cursor::new(file));
        let mut reader = Reader::new(INFO.clone(), vec![("main_0".into(), input)]);
        reader.within(within);
        if heads {
            reader.heads_alone();
        }
        while let Ok(Some(_)) = reader.next() {}
    }
}

/// The headers of two whole packets, as a block has them: the first one's words, and what the second one's differ by.
fn headers() -> Vec<u8> {
    let mut first = vec![0; HEADER as usize];
    first[..4].copy_from_slice(&MAGIC.to_le_bytes());
    first[4..20].copy_from_slice(&INFO.uuid.0);
    for (at, value) in [
        (32, u64::MAX >> 8),
        (40, u64::from(PAGE) * 8),
        (48, u64::from(PAGE) * 8),
        (80, u64::from(CAPACITY + SEALED)),
    ] {
        first[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    let mut headers = vec![0, 0];
    for (number, word) in first.chunks(8).enumerate() {
        headers.extend(word);
        // The sequence number grows.
        headers.extend(u64::from(number == 7).to_le_bytes());
    }
    headers
}

fuzz_target!(|data: &[u8]| {
    digest(data);
    let mut packer = Packer::new(EventTable::new(INFO.events.iter().cloned()), LEVEL).expect("memory");
    let (heads, fields) = data.split_at(data.first().map_or(0, |at| usize::from(*at) * 16).min(data.len()));
    let fields = fields.get(1..).unwrap_or_default();
    for parts in [[data, &[]], [heads.get(1..).unwrap_or_default(), fields]] {
        digest(&packer.block_of(2, [&headers(), parts[0], parts[1]]).expect("memory"));
    }
    let pages: Vec<u8> = data.chunks_exact(PAGE as usize).take(64).flatten().copied().collect();
    if !pages.is_empty() {
        digest(&packer.pack(&pages).expect("memory"));
    }
});
