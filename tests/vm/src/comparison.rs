//! Two recordings of the same thing, compared record by record.

use crate::recording::Record;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// How two recordings of the same thing compare.
#[derive(Debug, Default, Clone)]
pub struct Comparison {
    /// Records in both, equal in all fields.
    pub equal: usize,
    /// Records in the left one only, between equal ones.
    pub left: usize,
    /// Records in the right one only, between equal ones.
    pub right: usize,
    /// The first pair that differs.
    pub different: Option<String>,
}

/// Compares two recordings made at the same time, event by event and thread by thread: what one began with or ended with earlier or later
/// than the other does not count.
#[must_use]
pub fn compare(left: &[Record], right: &[Record]) -> BTreeMap<String, Comparison> {
    let mut result: BTreeMap<String, Comparison> = BTreeMap::new();
    let edge =
        |pick: fn(&[Record]) -> Option<&Record>| (pick(left).map(|r| r.time), pick(right).map(|r| r.time));
    let (first, last) = (edge(<[Record]>::first), edge(<[Record]>::last));
    let window = first.0.max(first.1).unwrap_or_default()..=last.0.min(last.1).unwrap_or(u64::MAX);
    let (left, right) = (by_thread(left, &window), by_thread(right, &window));
    for (key, left) in &left {
        let comparison = result.entry(key.0.clone()).or_default();
        if let Some(right) = right.get(key) {
            compare_runs(left, right, comparison);
        }
    }
    result
}

type Runs<'a> = BTreeMap<(String, u64, u64), Vec<&'a Record>>;

fn by_thread<'a>(records: &'a [Record], window: &RangeInclusive<u64>) -> Runs<'a> {
    let mut runs = Runs::new();
    for record in records.iter().filter(|r| window.contains(&r.time)) {
        // Idle threads share the number 0; others may move between CPUs.
        let cpu = if record.tid == 0 { record.cpu } else { 0 };
        let key = (record.event.clone(), record.tid, cpu);
        runs.entry(key).or_default().push(record);
    }
    runs
}

/// Number of records of the other side that are searched for an equal one.
const AHEAD: usize = 40;

/// The same for one that is older than what comes next there: of the two programs that see an event one may be interrupted, and the other not.
const NESTED: usize = 4;

fn compare_runs(left: &[&Record], right: &[&Record], into: &mut Comparison) {
    let (mut l, mut r) = (0, 0);
    let mut begun = false;
    let same = |l: &Record, r: &Record| l.fields == r.fields && l.time.abs_diff(r.time) < FAR;
    while l < left.len() && r < right.len() {
        if same(left[l], right[r]) {
            into.equal += 1;
            (l, r, begun) = (l + 1, r + 1, true);
            continue;
        }
        // The older record is absent in the other recording: an equal one farther on is another event of a thread that does the same again and again.
        let older = left[l].time < right[r].time;
        let (few, many) = (1..NESTED, 1..AHEAD);
        let (ahead_in_left, ahead_in_right) = if older { (many, few) } else { (few, many) };
        let in_right = { ahead_in_right }.find(|d| right.get(r + d).is_some_and(|x| same(left[l], x)));
        let in_left = { ahead_in_left }.find(|d| left.get(l + d).is_some_and(|x| same(x, right[r])));
        let (skip_left, skip_right) = match (in_left, in_right) {
            (Some(a), Some(b)) if a <= b => (a, 0),
            (Some(a), None) => (a, 0),
            (_, Some(b)) => (0, b),
            (None, None) => {
                // At an end, one side may have what the other was too late for.
                let near = left[l].time.abs_diff(right[r].time) < NEAR;
                if near {
                    into.different
                        .get_or_insert_with(|| format!("{:?}\n   {:?}", left[l], right[r]));
                }
                if left[l].time < right[r].time {
                    (1, 0)
                } else {
                    (0, 1)
                }
            }
        };
        if begun {
            into.left += skip_left;
            into.right += skip_right;
        }
        (l, r) = (l + skip_left, r + skip_right);
    }
}

/// Two records farther apart than this, ns, are not of one event; between the two programs that see it a machine may stand still for a while.
const FAR: u64 = 2_000_000_000;

/// Two records of one thread nearer than this, ns, with nothing between them in either recording, are of one event.
const NEAR: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    /// A record of one thread with this number.
    fn record(time: u64, number: u64) -> Record {
        Record {
            time,
            cpu: 0,
            tid: 7,
            pid: 7,
            event: "e".to_owned(),
            fields: Map::from_iter([("number".to_owned(), number.into())]),
        }
    }

    fn compared(left: &[Record], right: &[Record]) -> Comparison {
        compare(left, right).remove("e").unwrap_or_default()
    }

    /// Two batches of the same numbers, the second the other way round, each between others.
    fn batches(size: u64) -> Vec<Record> {
        let others = |from: u64| (from..from + 100).collect::<Vec<u64>>();
        let first: Vec<u64> = (0..size).collect();
        let second: Vec<u64> = (0..size).rev().collect();
        let numbers = [others(1000), first, second, others(2000)].concat();
        let timed = numbers.iter().zip(1..);
        timed.map(|(number, at)| record(at * 100_000, *number)).collect()
    }

    #[test]
    fn records_of_one_side_alone_are_counted_for_that_side() {
        for size in [1, 10, 39, 41, 60, 200] {
            let all = batches(size);
            let mut some = all.clone();
            some.drain(100..100 + size as usize);
            for record in &mut some {
                record.time += 700;
            }
            // The very first and the very last are before the other began, and after it ended.
            let both = some.len() - 2;
            let found = compared(&all, &some);
            assert_eq!((found.right, &found.different), (0, &None), "{size}: {found:?}");
            assert_eq!((found.equal, found.left), (both, size as usize), "{size}");
            let found = compared(&some, &all);
            assert_eq!((found.left, &found.different), (0, &None), "{size}: {found:?}");
            assert_eq!((found.equal, found.right), (both, size as usize), "{size}");
        }
    }

    #[test]
    fn differences_are_found() {
        let all = batches(20);
        let mut other = all.clone();
        other[90].fields.insert("number".to_owned(), 5555.into());
        assert!(compared(&all, &other).different.is_some());
    }

    #[test]
    fn an_interrupt_between_the_two_changes_the_order() {
        let all = batches(20);
        let mut other = all.clone();
        for record in &mut other {
            record.time += 700;
        }
        // The second program of the 50th event ran after an interrupt with three more.
        let late = other.remove(50);
        other.insert(
            53,
            Record {
                time: other[52].time + 1000,
                ..late
            },
        );
        let found = compared(&all, &other);
        assert_eq!(found.different, None);
        assert!(
            found.left <= 3 && found.right <= 3 && found.equal >= all.len() - 5,
            "{found:?}"
        );
    }
}
