//! Time series, and their pictures.

use crate::sharing::{CPUS, Maps};
use kestrel_compiler::check::globals::Globals;
use kestrel_trace::aggregate;
use kestrel_trace::symbol::Symbols;

/// Runs a time series of 100 ms over values at times in ms, CPUs in turn.
fn series(how: &str, values: &[(u64, i64)]) -> Maps {
    let mut maps = Maps::new(&[&format!("{{ @ = tseries((int64)arg2, 100ms, 4{how}) }}")]);
    for (cpu, (ms, value)) in (0..CPUS).cycle().zip(values) {
        maps.machine.environment.clock = ms * 1_000_000;
        maps.run(0, cpu, &[0, 0, value.cast_unsigned()]);
    }
    maps
}

#[test]
fn time_series() {
    let values = [
        (50, 9),
        (510, 4),
        (520, 1),
        (530, 7),
        (699, -8),
        (700, 3),
        (701, 4),
    ];
    let of = |how: &str| {
        let snapshot = series(how, &values).snapshot("").dated(0);
        let json = aggregate::json(&snapshot, &Symbols::default());
        assert_eq!(json["type"], "tseries");
        let mut all = Vec::new();
        for point in json["data"]["@"].as_array().unwrap() {
            let start = point["interval_start"].as_str().unwrap();
            // Dates are in the time zone of who reads.
            let (_, ms) = start.split_once(":00.").unwrap();
            all.push((ms[..3].parse::<u64>().unwrap(), point["value"].as_i64().unwrap()));
        }
        all
    };
    // The newest four intervals are those from 400 on; 50 is where 450 would be.
    assert_eq!(of(""), [(500, 7), (600, -8), (700, 4)]);
    assert_eq!(of(", \"last\""), of(""));
    assert_eq!(of(", \"sum\""), [(500, 12), (600, -8), (700, 7)]);
    assert_eq!(of(", \"avg\""), [(500, 4), (600, -8), (700, 3)]);
    assert_eq!(of(", \"max\""), [(500, 7), (600, -8), (700, 4)]);
    assert_eq!(of(", \"min\""), [(500, 1), (600, -8), (700, 3)]);
    let empty = Maps::accepted(&["{ if (arg0 == 1) { @ = tseries(1, 1s, 5) } }"]);
    assert_eq!(empty.text(""), "");
}

#[test]
fn a_time_series_is_a_picture() {
    let shown = |values: &[(u64, i64)]| -> String {
        let text = aggregate::text(
            &series("", values).snapshot("").dated(-500_000_000),
            &Symbols::default(),
        );
        // Times are in the time zone of who reads.
        let utc = |line: &str| match line.get(6..8) {
            Some("00") => format!("00:00:{}\n", &line[6..]),
            _ => format!("{line}\n"),
        };
        text.lines().map(utc).collect()
    };
    assert_eq!(
        shown(&[(600, -5), (610, -5), (800, 1), (900, 5)]),
        "@:
             -5                                                  5
hh:mm:ss.ms  |___________________________________________________|
00:00:00.100 *                         .                         | -5
00:00:00.200 |                         .                         | -
00:00:00.300 |                         .    *                    | 1
00:00:00.400 |                         .                         * 5
             v___________________________________________________v
             -5                                                  5

"
    );
    let nine = shown(&[(600, 9)]);
    assert!(
        nine.contains("00:00:00.100000000 |                         *                         | 9\n"),
        "{nine}"
    );
    assert!(
        nine.contains("                   8                                                  10\n"),
        "{nine}"
    );
    let zero = shown(&[(600, 0)]);
    assert!(
        zero.contains("00:00:00.100000000 |                         *                         | 0\n"),
        "{zero}"
    );
}

/// More intervals than fit into a value on each CPU, without keys and with one: what the CPUs have together holds the same.
#[test]
fn long_time_series_hold_every_interval() {
    for (map, name) in [("@", ""), ("@k[arg1]", "k")] {
        for (how, expected) in [
            ("", 2_i64),
            (", \"sum\"", 3),
            (", \"max\"", 2),
            (", \"min\"", 1),
            (", \"avg\"", 1),
        ] {
            let text = format!("{{ {map} = tseries((int64)arg2, 1us, 800{how}) }}");
            let globals = Globals {
                infers_types: true,
                max_map_keys: Some(4096),
                ..Globals::default()
            };
            let mut maps = Maps::with(&[&text], globals, |_, _| crate::kernel::kprobe());
            // The first 100 intervals leave their places to the newest 100.
            for number in 0..900_u64 {
                maps.machine.environment.clock = number * 1000;
                for (cpu, value) in [(0, 1), (1, 2)] {
                    maps.run(0, cpu, &[0, 5, number % 100 * 10 + value]);
                }
            }
            let snapshot = maps.snapshot(name).dated(0);
            assert_eq!((snapshot.rows.len(), snapshot.lost), (1, 0), "{text}");
            let json = aggregate::json(&snapshot, &Symbols::default());
            let data = &json["data"][format!("@{name}")];
            let points = data.as_array().or_else(|| data["5"].as_array());
            let values: Vec<i64> = points
                .unwrap()
                .iter()
                .map(|point| point["value"].as_i64().unwrap())
                .collect();
            let each = |number: u64| {
                let tens = (number % 100 * 10) as i64;
                if how.contains("sum") {
                    2 * tens + expected
                } else {
                    tens + expected
                }
            };
            let wanted: Vec<i64> = (100..900).map(each).collect();
            assert_eq!(values, wanted, "{text}");
        }
    }
}
