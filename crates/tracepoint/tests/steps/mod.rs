//! Reading of recordings of the event `step`, which has a thread's number and a number that grows.

use kestrel_trace::ctf::directory;
use kestrel_trace::value::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers of a trace's `step` events, by thread and in the order of time, and the count of lost events.
pub(crate) fn steps(folder: &Path) -> (BTreeMap<u64, Vec<u64>>, u64) {
    let mut trace = directory::open(folder).unwrap();
    let (mut steps, mut last_ns) = (BTreeMap::<u64, Vec<u64>>::new(), 0);
    while let Some(record) = trace.reader.next().unwrap() {
        assert!(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        let number = |name: &str| match record.get(name) {
            Some(Value::Unsigned { value, .. }) => value,
            other => panic!("{name}: {other:?}"),
        };
        steps.entry(number("thread")).or_default().push(number("number"));
    }
    let losses = trace.reader.losses();
    assert_eq!(
        (losses.packets_absent, losses.packets_damaged),
        (0, 0),
        "{losses:?}"
    );
    (steps, losses.lost)
}
