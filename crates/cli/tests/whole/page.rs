//! `report --html`: what it writes and says. What the page shows is tested with a browser, beside the code that makes it.

use crate::command::{WorkFolder, needs_tracing};

#[test]
fn a_page_is_one_file_that_asks_no_network() {
    needs_tracing!();
    let place = WorkFolder::new();
    let line = [
        "record",
        "-e",
        "syscalls:sys_enter_*,sched:sched_switch",
        "--",
        "ls",
        "/",
    ];
    place.run(&line).succeeds();
    let answer = place.run(&["report", "--html", "page.html"]).succeeds();
    assert!(answer.err.contains("page.html"), "{}", answer.err);
    assert_eq!(answer.out, "");
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for foreign in ["http:", "https:", " src=", " href=", "/*DATA*/", "/*SCRIPT*/"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let left: Vec<_> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kestrel.trace")
        .collect();
    assert_eq!(left, ["page.html"]);
    // Again, over the old one, of some records.
    let some = ["report", "--html", "page.html", "-e", "sys_enter_*"];
    assert!(place.run(&some).succeeds().err.contains("page.html"));
}

#[test]
fn a_page_that_cannot_be_is_refused_with_a_reason() {
    needs_tracing!();
    let place = WorkFolder::new();
    place
        .run(&["record", "-e", "syscalls:sys_enter_*", "--", "true"])
        .succeeds();
    let nowhere = place.run(&["report", "--html", "kestrel.trace/metadata/page.html"]);
    nowhere.fails(1, &["cannot write kestrel.trace/metadata/page.html"]);
    let none = place.run(&["report", "--html", "page.html", "--comm", "nobody"]);
    none.fails(1, &["none of the events"]);
    assert!(!place.path().join("page.html").exists());
    let other = place.run(&["report", "--html", "page.html", "--by", "comm"]);
    other.fails(2, &["--html", "--by"]);
    place
        .run(&["report", "--html", "page.html", "nothing.trace"])
        .fails(1, &["nothing.trace"]);
}
