//! Names of trace files, and which of them stand for something.

use super::*;

#[test]
fn names_go_on_and_unfinished_segments_are_removed() {
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
fn lost_counts_belong_to_the_session_of_their_uuid() {
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

#[test]
fn a_segment_that_cannot_be_removed_does_not_hold_up_the_others() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    for number in 1..=5 {
        let segment = folder.join(format!("{number:08}-20260101T000000Z"));
        std::fs::create_dir(&segment).unwrap();
        std::fs::write(segment.join("metadata"), "/* CTF 1.8 */").unwrap();
    }
    let foreign = folder.join("00000001-20260101T000000Z/notes");
    std::fs::write(&foreign, "mine").unwrap();
    let mut finished = Finished {
        path: None,
        records: 0,
        lost: 0,
        bytes: 0,
        removed: 0,
        not_removed: Vec::new(),
    };
    prune(folder, 2, &mut finished);
    assert_eq!(finished.removed, 2, "{finished:?}");
    let [(path, why)] = finished.not_removed.as_slice() else {
        panic!("{finished:?}");
    };
    assert_eq!(path, foreign.parent().unwrap());
    assert!(why.contains("not empty"), "{why}");
    assert!(foreign.exists());
    let left = names(folder).unwrap().into_iter().map(|(number, ..)| number);
    assert_eq!(left.collect::<Vec<_>>(), [1, 4, 5]);
}
