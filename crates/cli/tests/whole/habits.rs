//! Words of other tools: what is answered to them.

use crate::command::WorkFolder;

#[test]
fn habits_are_answered() {
    let place = WorkFolder::new();
    let top = place.run(&["top", "--help"]).succeeds();
    assert!(top.out.contains("kestrel top"), "{}", top.out);
    place.run(&["script"]).fails(2, &["kestrel print"]);
    let unknown = place.run(&["record", "--nosuch"]);
    unknown.fails(2, &["unexpected argument '--nosuch'", "--help"]);
    assert!(!unknown.err.contains("-- --nosuch"), "{}", unknown.err);
    place
        .run(&["trace", "script.bt"])
        .fails(1, &["kestrel run script.bt"]);
    let help = place.run(&["help", "record"]).succeeds();
    assert!(help.out.contains("--compress"), "{}", help.out);
}
