//! Histograms: generated code and reader agree on the buckets.

use crate::sharing::{Maps, after};
use kestrel_trace::aggregate;
use kestrel_trace::aggregate::aggregation::Metric;

#[test]
fn histograms() {
    let counts = [0, 1, 2, 3, 3, 4, 1000, 1024, -5i64 as u64, u64::MAX / 2];
    let text = after("{ @ = hist((int64)arg2) }", &counts);
    let rows: Vec<String> = text
        .lines()
        .map(|line| {
            line.split(" |")
                .next()
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .filter(|row| !row.ends_with(" 0"))
        .collect();
    assert_eq!(
        rows,
        [
            "@:",
            "(..., 0) 1",
            "[0] 1",
            "[1] 1",
            "[2, 4) 3",
            "[4, 8) 1",
            "[512, 1K) 1",
            "[1K, 2K) 1",
            "[4E, 8E) 1",
            ""
        ]
    );
    let text = after(
        "{ @[arg2 / 100] = lhist(arg2, 10, 40, 10) }",
        &[5, 10, 19, 39, 40, 99],
    );
    assert_eq!(
        text,
        "@[0]:
(..., 10)              1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[10, 20)               2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[20, 30)               0 |                                                    |
[30, 40)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[40, ...)              2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

"
    );
}

/// Generated code sorts values into the buckets that the reader names.
#[test]
fn every_histogram_agrees_with_the_reader() {
    let values = || {
        (0..64u32).flat_map(|shift| {
            [
                1u64 << shift,
                (1u64 << shift) - 1,
                3u64 << shift,
                0x5555_5555_5555_5555 >> shift,
            ]
        })
    };
    let handlers = [
        "{ @ = hist((int64)arg2) }",
        "{ @ = hist((int64)arg2, 1) }",
        "{ @ = hist((int64)arg2, 3) }",
        "{ @ = hist((int64)arg2, 5) }",
        "{ @ = lhist((int64)arg2, -100, 900, 1) }",
        "{ @ = lhist((int64)arg2, -100, 95, 30) }",
        "{ @ = lhist((int64)arg2, -1000000000000, 7000000000000, 100000000000) }",
    ];
    for handler in handlers {
        for value in values() {
            let mut maps = Maps::new(&[handler]);
            maps.run(0, 1, &[0, 0, value]);
            let snapshot = maps.snapshot("");
            let aggregate::ValueKind::Aggregation(aggregation) = &snapshot.ty.value else {
                panic!("{snapshot:?}")
            };
            let aggregate::read::RowValue::Words(counts) = &snapshot.rows[0].value else {
                panic!("{snapshot:?}")
            };
            let Metric::Histogram(buckets) = aggregation.function.metric(aggregation, counts) else {
                panic!("{aggregation:?}")
            };
            let index = buckets.index(value) as usize;
            assert_eq!(counts.iter().sum::<u64>(), 1, "{handler} {value}");
            assert_eq!(counts[index], 1, "{handler} {value}");
        }
    }
}
