//! Traces written anew: the same records, losses in their places, and a part of them.

use crate::pages::{Cell, Ring, record};
use crate::sample::{self, crooked, info};
use crate::writing::{sealed, write};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::rewrite::{Rewriter, SideData};
use std::path::Path;

/// Writes those records of a trace whose times `wants`; gives all as (buffer, CPU, bytes).
pub fn rewrite(
    from: &Path,
    to: &Path,
    level: Option<u8>,
    wants: impl Fn(u64) -> bool,
) -> Vec<(u32, u32, Vec<u8>)> {
    let mut trace = directory::open(from).unwrap();
    let mut rewriter = Rewriter::create(to, &trace.reader, level).unwrap();
    let mut all = Vec::new();
    while let Some((buffer, record, lost)) = trace.reader.next_with_losses().unwrap() {
        if wants(record.time_ns) {
            rewriter.record(buffer, &record, lost).unwrap();
            all.push((buffer, record.cpu, record.bytes.to_vec()));
        }
    }
    let beside = SideData {
        summary: trace.summary,
        symbols: trace.symbols,
        processes: trace.processes,
        ..SideData::default()
    };
    rewriter.finish(beside, "cut".into()).unwrap();
    all
}

pub fn records(path: &Path) -> (Vec<(u32, u32, Vec<u8>)>, directory::Trace) {
    let mut trace = directory::open(path).unwrap();
    let mut all = Vec::new();
    while let Some((buffer, record)) = trace.reader.next_in().unwrap() {
        all.push((buffer, record.cpu, record.bytes.to_vec()));
    }
    (all, trace)
}

#[test]
fn the_same_records_in_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("plain"), 700);
    let written = rewrite(&at("plain"), &at("packed"), Some(3), |_| true);
    assert_eq!(written.len(), 2100);
    rewrite(&at("packed"), &at("again"), None, |_| true);
    for name in ["packed", "again"] {
        let (all, trace) = records(&at(name));
        assert!(all == written, "{name}");
        assert!(trace.reader.losses().is_none(), "{:?}", trace.reader.losses());
        let summary = trace.summary.unwrap();
        assert!(trace.reader.absent(&summary).is_empty());
        assert_eq!(trace.symbols, sample::symbols());
        assert_eq!(trace.processes, sample::processes());
        assert!(summary.notes.contains(&"cut".to_owned()));
    }
    let middle = written.len() as u64 / 2;
    let (all, trace) = {
        rewrite(&at("packed"), &at("part"), None, |time| time % 3 == middle % 3);
        records(&at("part"))
    };
    assert!(!all.is_empty() && all.len() < written.len());
    assert!(trace.reader.losses().is_none());
}

#[test]
fn losses_come_along() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut writer = directory::create(&at("lossy"), info(), false).unwrap();
    let mut ring = Ring::new(sample::UUID, 0, 0);
    for n in 0..900 {
        if n == 600 {
            ring.lost = 17;
        }
        ring.push(n, &record(&crooked(), n, 1, 1, &[Cell::U(n)]));
    }
    writer.append(0, 0, &sealed(&mut ring)).unwrap();
    drop(writer);
    rewrite(&at("lossy"), &at("whole"), None, |_| true);
    assert_eq!(records(&at("whole")).1.reader.losses().lost, 17);
    // Before the first record of a part nothing is known to be lost.
    rewrite(&at("lossy"), &at("end"), None, |time| time > 850);
    assert_eq!(records(&at("end")).1.reader.losses().lost, 0);
}
