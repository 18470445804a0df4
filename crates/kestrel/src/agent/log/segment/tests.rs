//! Names of trace files, and which of them stand for something.

use super::*;

#[test]
fn names_go_on_and_what_stands_for_nothing_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    for name in [
        "00000007-20260101T000000Z",
        ".00000009-20260101T000000Z.new",
        "notes",
    ] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    for name in [
        ".00000009.json",
        ".00000008.json",
        "..00000010.json.new",
        ".counts.json",
        "00000001",
    ] {
        std::fs::write(folder.join(name), "{}").unwrap();
    }
    let next = SegmentPlace::next(folder).unwrap();
    assert_eq!(next.number, 10, "higher than all, whole or not");
    assert!(
        next.name.starts_with("00000010-2") && next.name.ends_with('Z'),
        "{next:?}"
    );
    let places = unfinished(folder).unwrap();
    assert_eq!(places.iter().map(|place| place.number).collect::<Vec<_>>(), [9]);
    let mut left: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("json"))
        .collect();
    left.sort();
    assert_eq!(left, [".00000009.json", ".counts.json"]);
}

#[test]
fn what_was_refused_belongs_to_the_session_of_that_identity() {
    let root = tempfile::tempdir().unwrap();
    let lost: LostRecords = [((0, 3, 1), 17), ((1, 3, 0), 2)].into();
    let ledger = Ledger {
        uuid: "a".to_owned(),
        lost: pack(&lost),
    };
    write_json(root.path(), COUNTS, &ledger).unwrap();
    assert_eq!(counted(root.path(), "a"), lost);
    assert_eq!(counted(root.path(), "b"), LostRecords::new());
    let later: LostRecords = [((0, 3, 1), 20), ((2, 1, 0), 4)].into();
    assert_eq!(difference(&lost, &later), [((0, 3, 1), 3), ((2, 1, 0), 4)].into());
}
