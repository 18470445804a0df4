//! Items kept where there are too many, and layout of the columns.

use super::columns::Columns;
use super::events::Events;
use super::longest::{Lasting, Longest};
use super::shares::{Row, Shares};
use super::strings::Strings;
use crate::event::{EventClass, EventId};
use crate::layout::{Base, FieldType, Layout};
use crate::record::Record;
use crate::symbol::Symbols;
use serde_json::{Value as Json, json};

#[derive(Debug, PartialEq, Eq)]
struct Took(u64, u64);

impl Lasting for Took {
    fn begin_ns(&self) -> u64 {
        self.0
    }

    fn ns(&self) -> u64 {
        self.1
    }
}

#[test]
fn of_too_much_the_longest_is_kept() {
    let mut longest = Longest::new(100);
    // Lengths in no order, each once.
    let lengths: Vec<u64> = (0..1009).map(|n| n * 614 % 1009).collect();
    for (begin, ns) in (0..).zip(&lengths) {
        if longest.wants(*ns) {
            longest.push(Took(begin, *ns));
        }
    }
    let left = longest.finish();
    assert_eq!(left.kept.len() as u64 + left.left_out, 1009);
    assert!((50..=100).contains(&left.kept.len()));
    // All that took longer than any that was left out are there, by begin.
    let expected: Vec<Took> = (0..)
        .zip(lengths)
        .filter(|(_, ns)| *ns > left.up_to_ns)
        .map(|(begin, ns)| Took(begin, ns))
        .collect();
    assert_eq!(left.kept, expected);
}

fn class(id: u16, name: &str) -> EventClass {
    let number = FieldType::Integer {
        size: 8,
        signed: false,
        base: Base::Decimal,
    };
    EventClass {
        id: EventId(id),
        name: name.to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new([("n".to_owned(), number)]),
        action: None,
        print: None,
    }
}

/// The numbers of a column.
fn numbers(whole: &[u8], name: &str) -> Vec<u64> {
    let head = 4 + u32::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    let entry = &serde_json::from_slice::<Json>(&whole[4..head]).unwrap()["columns"][name];
    let part = |key: &str| entry[key].as_u64().unwrap() as usize;
    let least: u64 = entry["least"].as_str().unwrap().parse().unwrap();
    let (at, count) = (head + part("at"), part("count"));
    let value = |index: usize| {
        let byte = |plane: usize| u64::from(whole[at + plane * count + index]) << (8 * plane);
        (0..part("width")).map(byte).sum::<u64>() + least
    };
    let mut values: Vec<u64> = (0..count).map(value).collect();
    if let Some(first) = entry["first"].as_str() {
        let mut sum: u64 = first.parse().unwrap();
        for value in &mut values {
            sum += *value;
            *value = sum;
        }
    }
    values
}

#[test]
fn of_too_many_events_the_most_frequent_are_sampled_and_rare_ones_are_whole() {
    let (often, rare) = (class(1, "often"), class(2, "rare"));
    let (mut events, mut strings) = (Events::new(100), Strings::default());
    for n in 0..1000_u64 {
        let event = if n % 50 == 49 { &rare } else { &often };
        let mut bytes = vec![0; event.layout.fixed_end() as usize];
        let at = event.layout.fields()[0].offset() as usize;
        bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
        let record = Record {
            time_ns: 10 * n,
            cpu: 0,
            pid: 1,
            tid: 1,
            event,
            bytes: &bytes,
            unwound: None,
            rest: &[],
        };
        events.add(&record, (0, 0), &Symbols::default(), &mut strings);
    }
    let mut columns = Columns::default();
    let report = events.finish(&mut columns);
    let whole = columns.finish(json!({}));
    assert_eq!(
        (&report[0]["count"], &report[1]["count"]),
        (&json!(980), &json!(20))
    );
    assert_eq!(
        (&report[0]["stride"], &report[1]["stride"]),
        (&json!(16), &json!(1))
    );
    let times = numbers(&whole, "event.time");
    assert!(times.is_sorted() && times.len() <= 100);
    let (often, rare) = (numbers(&whole, "field.0.0"), numbers(&whole, "field.1.0"));
    assert_eq!(rare, (0..20).map(|n| n * 50 + 49).collect::<Vec<_>>());
    let every = (0..1000_u64).filter(|n| n % 50 != 49).step_by(16);
    assert_eq!(often, every.collect::<Vec<_>>());
}

#[test]
fn columns_are_as_wide_as_their_values() {
    let mut columns = Columns::default();
    columns.numbers("constant", [7, 7, 7].into_iter());
    columns.numbers("wide", [0, u64::MAX.into()].into_iter());
    columns.numbers("empty", [].into_iter());
    columns.rising("times", [1 << 40, (1 << 40) + 3, (1 << 40) + 4].into_iter());
    columns.strings("strings", ["a", "", "\u{20ac}<b>"].into_iter());
    let whole = columns.finish(json!({}));
    assert_eq!(numbers(&whole, "constant"), [7, 7, 7]);
    assert_eq!(numbers(&whole, "wide"), [0, u64::MAX]);
    assert_eq!(numbers(&whole, "empty"), [0; 0]);
    assert_eq!(numbers(&whole, "times"), [1 << 40, (1 << 40) + 3, (1 << 40) + 4]);
    assert_eq!(numbers(&whole, "strings#"), [1, 0, 6]);
    let head = 4 + u32::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    // Two values of eight bytes, three of one, the strings, their lengths; constants and nothing take none.
    assert_eq!(whole.len() - head, 16 + 3 + 7 + 3);
}

#[test]
fn buckets_that_widen_lose_no_time() {
    let mut shares = Shares::new(1000);
    let mut sums = [0, 0];
    for n in 0..600_000_u64 {
        let (begin, ns, kind) = (1000 + n * 20_000, n % 19_000, (n % 2) as usize);
        sums[kind] += ns;
        shares.add(Row::Thread(3), begin, begin + ns, kind);
    }
    // One that goes over all of it.
    let end = 1000 + 600_000 * 20_000;
    shares.add(Row::Cpu(3), 1000, end, 0);
    let mut columns = Columns::default();
    shares.finish(&mut columns);
    let whole = columns.finish(json!({}));
    let rows = numbers(&whole, "share.row");
    assert!(rows.is_sorted() && rows.len() <= 400_000);
    let sum = |name: &str, wanted: u64| -> u64 {
        let all = rows.iter().zip(numbers(&whole, name));
        all.filter(|(row, _)| **row == wanted).map(|(_, ns)| ns).sum()
    };
    assert_eq!([sum("share.running", 6), sum("share.runnable", 6)], sums);
    assert_eq!(sum("share.running", 7), end - 1000);
    assert_eq!(sum("share.blocked", 6), 0);
}
