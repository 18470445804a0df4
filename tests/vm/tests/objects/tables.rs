//! Programs of objects as handlers of tables: each type on its event, masked by the active table, counted exactly, gone with the session.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use super::held::{gone, held};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;
use vm_tests::{kestrel, shell, table_file};

const TABLES: &str = r#"
buffer ring { size = 64k }
table main {
  kprobe:__x64_sys_getppid /comm == "calls"/ handler "../object_handler.o:at_entry"
  kretprobe:__x64_sys_getppid /comm == "calls"/ handler "../object_handler.o:at_return"
  syscalls:sys_enter_getppid /comm == "calls"/ handler "/object_handler.o"
  fentry:ksys_read /comm == "calls"/ handler "../object_handler.o"
}
table quiet : main {
  kprobe:__x64_sys_getppid, kretprobe:__x64_sys_getppid, syscalls:*, fentry:* { }
  sched:sched_process_exec /comm == "calls"/ handler "../object_handler.o:classic"
}
"#;

/// A table that comes later: one handler in a slot of a hook that is there, one on an event without a hook.
const LATER: &str = r#"
table later {
  kprobe:__x64_sys_getppid /comm == "calls"/ handler "/object_handler.o:first"
  kprobe:__x64_sys_getpgid /comm == "calls"/ handler "/object_handler.o:at_entry"
}
"#;

#[test]
fn an_object_of_others_is_not_loaded() {
    use std::os::unix::fs::chown;
    shell("chmod 1777 /tmp; mkdir /tmp/eve; cp /object_handler.o /tmp/eve/evil.o").success();
    let table = "table main { kprobe:__x64_sys_getppid handler \"/tmp/eve/evil.o:at_entry\" }";
    std::fs::write("/tmp/own.kst", table).unwrap();
    std::fs::write(
        "/tmp/eve/o.kst",
        table.replace("/tmp/eve/evil.o", "/object_handler.o"),
    )
    .unwrap();
    chown("/tmp/eve/o.kst", Some(1000), None).unwrap();
    chown("/tmp/eve/evil.o", Some(1000), None).unwrap();
    shell("chmod 644 /tmp/own.kst /tmp/eve/o.kst /tmp/eve/evil.o").success();
    let whose = "it belongs to another user (1000)";
    for (arguments, what) in [
        (
            &["start", "/tmp/own.kst"][..],
            "/tmp/eve/evil.o is not loaded into the kernel",
        ),
        (
            &["start", "/tmp/eve/o.kst"],
            "/tmp/eve/o.kst may not have objects loaded",
        ),
        (
            &["bpf", "run", "/tmp/eve/evil.o", "--duration", "0.1"],
            "/tmp/eve/evil.o is not loaded",
        ),
        (
            &["record", "--table", "/tmp/own.kst", "--duration", "0.1"],
            "/tmp/eve/evil.o is not loaded",
        ),
        (
            &[
                "probe",
                "add",
                "p",
                "kprobe:vfs_read handler \"/tmp/eve/evil.o:at_entry\"",
            ],
            "/tmp/eve/evil.o is not loaded",
        ),
    ] {
        let refused = kestrel(arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}: {}", refused.err);
        assert!(
            refused.err.contains(what) && refused.err.contains(whose),
            "{arguments:?}: {}",
            refused.err
        );
    }
    kestrel(&[
        "bpf",
        "run",
        "--untrusted",
        "/tmp/eve/evil.o",
        "--duration",
        "0.1",
    ])
    .success();
    kestrel(&["bpf", "show", "/tmp/eve/evil.o"]).success();
    shell("rm -r /tmp/eve /tmp/own.kst; chmod 755 /tmp").success();
}

/// Keys of the object's map: what each program counts under.
const ENTRY: u64 = 0;
const RETURN: u64 = 1;
const RAW: u64 = 2;
const CLASSIC: u64 = 3;
const BEFORE: u64 = 4;
const FIRST: u64 = 6;
const NEXT: u64 = 7;

/// The handlers of the session.
fn handlers() -> Vec<Value> {
    let list = kestrel(&["handler", "list", "--format", "json"]).success();
    list.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Count of the object's program under this key.
fn hits(key: u64) -> u64 {
    hits_in(&handlers(), key)
}

fn hits_in(all: &[Value], key: u64) -> u64 {
    let maps = all
        .iter()
        .flat_map(|handler| handler["programs"].as_array().unwrap())
        .flat_map(|program| program["maps"].as_array().unwrap())
        .filter(|map| map["map"] == "seen");
    let entries: Vec<&Value> = maps.flat_map(|map| map["entries"].as_array().unwrap()).collect();
    let found = entries.iter().find(|entry| entry["key"] == key);
    found.map_or(0, |entry| entry["value"]["hits"].as_u64().unwrap())
}

/// Kestrel's counts of the handlers that run this program: calls, and hits that the kernel missed.
fn called_in(all: &[Value], program: &str) -> (u64, u64) {
    let mut sum = (0, 0);
    for handler in all {
        let programs = handler["programs"].as_array().unwrap();
        if programs.iter().all(|known| known["program"] != program) {
            continue;
        }
        let maps = handler["maps"].as_array().unwrap().iter();
        let counts = maps.filter_map(|map| map["data"]["count()"].as_object());
        sum.0 += counts
            .flat_map(|by_event| by_event.values())
            .filter_map(Value::as_u64)
            .sum::<u64>();
        sum.1 += handler["missed"].as_u64().unwrap();
    }
    sum
}

/// Calls of a program, as its object counted under its key and as Kestrel did, and hits that the kernel missed; read at one time.
fn counted(all: &[Value], key: u64, program: &str) -> (u64, u64) {
    let (counted, missed) = called_in(all, program);
    assert_eq!(hits_in(all, key), counted, "{program}: {all:?}");
    (counted, missed)
}

fn calls(times: u64) {
    shell(&format!("calls getppid {times}")).success();
}

fn use_table(name: &str) {
    kestrel(&["table", "use", name]).success();
}

#[test]
fn programs_of_each_type_handle_their_events_under_the_active_table_alone() {
    let before = held();
    kestrel(&["start", &table_file("objects", TABLES)]).success();
    calls(300);
    shell("calls read 100").success();
    use_table("quiet");
    calls(200);
    let all = handlers();
    for (key, program) in [(ENTRY, "at_entry"), (RETURN, "at_return"), (RAW, "raw")] {
        let (counted, missed) = counted(&all, key, program);
        assert!(
            counted <= 300 && counted + missed >= 300,
            "{program}: {counted}, {missed} missed"
        );
    }
    let (reads, missed) = counted(&all, BEFORE, "before");
    assert!(reads + missed >= 100, "{reads} reads, {missed} missed");
    // The shell that runs `calls` has another name until it has become it.
    let (ended, missed) = counted(&all, CLASSIC, "classic");
    assert!(
        ended <= 1 && ended + missed >= 1,
        "{ended} of one, {missed} missed"
    );
    let entry = hits_in(&all, ENTRY);
    use_table("main");
    calls(50);
    let (again, _) = counted(&handlers(), ENTRY, "at_entry");
    assert!(again > entry);
    // A ring is made anew with all handlers; what objects do goes on.
    kestrel(&["buffer", "resize", "ring", "128k"]).success();
    let entry = hits(ENTRY);
    calls(40);
    let (counted, missed) = counted(&handlers(), ENTRY, "at_entry");
    assert!(
        counted + missed >= entry + 40,
        "{entry}, then {counted}, {missed} missed"
    );
    let shown = kestrel(&["handler", "list"]).success();
    assert!(shown.contains("runs at_entry of /object_handler.o"), "{shown}");
    assert!(shown.contains("{hits: "), "its map is typed: {shown}");
    kestrel(&["stop"]).success();
    gone(&before);
}

#[test]
fn tables_that_come_later_share_the_object_and_take_it_along_when_they_go() {
    let before = held();
    let nothing = "table main { kprobe:__x64_sys_getppid /comm == \"calls\"/ { count() } }";
    kestrel(&["start", &table_file("plain", nothing)]).success();
    let later = table_file("later", LATER);
    kestrel(&["table", "load", &later]).success();
    assert_eq!(hits(FIRST), 0);
    use_table("later");
    calls(100);
    let all = handlers();
    let (counted, missed) = counted(&all, FIRST, "first");
    assert_eq!(hits_in(&all, NEXT), counted, "it calls on through its own array");
    assert!(
        counted <= 100 && counted + missed >= 100,
        "{counted}, {missed} missed"
    );
    let entries = |name: &str| {
        let listed = std::fs::read_dir("/sys/fs/bpf/kestrel/main").unwrap();
        listed
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(name)
            })
            .count()
    };
    assert_eq!(entries("object0_"), 3, "seen, .bss, chain");
    // The same file again: the same maps, and what they hold.
    let had = counted;
    kestrel(&["table", "load", &later]).success();
    assert_eq!((hits(FIRST), entries("object")), (had, 3));
    calls(10);
    let all = handlers();
    let now = hits_in(&all, FIRST);
    assert!(now > had && now == hits_in(&all, NEXT));
    // Another file under its name is another object.
    shell("cp /object_handler.o /tmp/own.o").success();
    let own = table_file("own", &LATER.replace("/object_handler.o", "own.o"));
    kestrel(&["table", "load", &own]).success();
    assert_eq!((hits(FIRST), entries("object0_"), entries("object1_")), (0, 0, 3));
    // Loads that are killed leave nothing that the next command does not take away.
    for step in 0..8 {
        let mut load = Command::new("kestrel")
            .args(["table", "load", if step % 2 == 0 { &later } else { &own }])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(step * 25));
        _ = load.kill();
        load.wait().unwrap();
        use_table("later");
        assert_eq!(entries("object"), 3, "after {step}");
    }
    calls(10);
    use_table("main");
    kestrel(&["table", "unload", "later"]).success();
    assert_eq!(entries("object"), 0, "they went with their table");
    kestrel(&["stop"]).success();
    gone(&before);
}

#[test]
fn named_probes_have_programs_of_objects_that_go_with_the_last_of_them() {
    let before = held();
    let pins = |what: &str| {
        let listed = std::fs::read_dir("/sys/fs/bpf/kestrel/probes").unwrap();
        let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(what)).count()
    };
    let probe = |words: &[&str]| kestrel(&[&["probe"], words].concat()).success();
    // The path counts from where the command runs, in a file from where that lies.
    let entry = "kprobe:__x64_sys_getppid /comm == \"calls\"/ handler \"object_handler.o:at_entry\"";
    shell(&format!(
        "cd / && kestrel probe add entry '{entry}' recs 'kprobe:__x64_sys_getppid /comm == \"calls\"/'"
    ))
    .success();
    let exit =
        "exit kretprobe:__x64_sys_getppid /comm == \"calls\"/ handler \"../object_handler.o:at_return\"\n";
    std::fs::write("/tmp/exit.probes", exit).unwrap();
    probe(&["add", "--file", "/tmp/exit.probes"]);
    assert_eq!(pins("object0_"), 3, "one object, whoever names it");
    calls(80);
    // Hits of a probe count before its predicate, which leaves out the shell that becomes `calls`.
    let all = handlers();
    for (key, program) in [(ENTRY, "at_entry"), (RETURN, "at_return")] {
        let (counted, missed) = counted(&all, key, program);
        assert!(
            counted <= 80 && counted + missed >= 80,
            "{program}: {counted} of 80, {missed} missed"
        );
    }
    // A probe that is off calls nothing; the buffer is made anew without it, and it goes on.
    probe(&["disable", "entry"]);
    let hits_of_both = || {
        let all = handlers();
        (hits_in(&all, ENTRY), hits_in(&all, RETURN))
    };
    let was = hits_of_both();
    calls(20);
    let now = hits_of_both();
    assert_eq!(now.0, was.0);
    assert!(now.1 > was.1);
    kestrel(&["buffer", "resize", "--session", "probes", "main", "128k"]).success();
    probe(&["enable", "entry"]);
    calls(20);
    assert!(hits(ENTRY) > was.0);
    // The same again under its name keeps the maps; what is refused changes nothing.
    let was = hits(ENTRY);
    let again = entry.replace("object_handler", "/object_handler");
    probe(&["add", "--replace", "entry", &again]);
    assert_eq!((hits(ENTRY), pins("object")), (was, 3));
    for (text, word) in [
        (entry.replace("object_handler.o", "/none.o"), "/none.o"),
        (
            entry
                .replace("object_handler.o", "/object_handler.o")
                .replace("at_entry", "raw"),
            "SEC(\"kprobe\")",
        ),
    ] {
        let refused = kestrel(&["probe", "add", "--replace", "entry", &text]);
        assert_ne!(refused.code, Some(0), "{text}");
        assert!(refused.err.contains(word), "{text}: {}", refused.err);
    }
    calls(20);
    assert!(hits(ENTRY) > was);
    probe(&["remove", "entry"]);
    assert_eq!(pins("object"), 3, "another one names it");
    probe(&["remove", "exit"]);
    assert_eq!(pins("object"), 0, "they went with the last");
    kestrel(&["stop", "probes"]).success();
    gone(&before);
}

#[test]
fn a_recording_shows_the_counts_of_the_object() {
    let before = held();
    let row = "kprobe:__x64_sys_getppid handler \"/object_handler.o:at_entry\"";
    let path = table_file("recorded", &format!("table main {{ {row} }}"));
    // Rows of tables and events of the command line.
    for selection in [["--table", &path], ["-e", row]] {
        let fixed = ["record", "-o", "/tmp/recorded"];
        let work = ["--", "calls", "getppid", "70"];
        let shown = kestrel(&[&fixed[..], &selection, &work].concat()).success();
        let hits = shown.split_once("seen (array, 8 of 8 entries)\n  0: {hits: ");
        let hits = hits.and_then(|(_, rest)| rest.split(',').next());
        let hits: u64 = hits
            .and_then(|hits| hits.parse().ok())
            .unwrap_or_else(|| panic!("{shown}"));
        assert!(
            hits > 0 && hits <= 70,
            "{hits} of the 70 calls of this command: {shown}"
        );
    }
    gone(&before);
}

#[test]
fn a_wrong_object_on_the_command_line_is_refused_with_its_reason() {
    let before = held();
    for (event, words) in [
        (
            "kprobe:vfs_read handler \"none.o\"",
            &["none.o", "No such file"][..],
        ),
        (
            "kprobe:vfs_read handler \"/object_handler.o:raw\"",
            &["the program raw", "programs of SEC(\"kprobe\")"],
        ),
        (
            "kprobe:vfs_read handler \"/object_handler.o:first\" { count() }",
            &["nothing follows the object"],
        ),
    ] {
        let refused = kestrel(&["record", "-o", "/tmp/recorded", "-e", event, "--", "true"]);
        assert_ne!(refused.code, Some(0), "{event} is accepted");
        for word in words {
            assert!(refused.err.contains(word), "{event}: {}", refused.err);
        }
    }
    gone(&before);
}

#[test]
fn a_wrong_object_in_a_table_row_is_refused_at_its_place() {
    let before = held();
    let printed = |row: &str| {
        let refused = kestrel(&[
            "table",
            "check",
            &table_file("wrong", &format!("table main {{ {row} }}")),
        ]);
        assert_ne!(refused.code, Some(0), "{row} is accepted");
        refused.err
    };
    for (row, words) in [
        (
            "kprobe:vfs_read handler \"none.o\"",
            &["/tmp/none.o", "counts from where the table file is"][..],
        ),
        ("kprobe:vfs_read handler \"/tmp\"", &["it is no file"]),
        ("kprobe:vfs_read handler \"wrong.kst\"", &["ELF"]),
        (
            "kprobe:vfs_read handler \"/object_handler.o:nobody\"",
            &["has no program nobody", "at_entry (SEC(\"kprobe\"))"],
        ),
        (
            "kprobe:vfs_read handler \"/object_handler.o\"",
            &[
                "has 4 programs for kprobe:vfs_read",
                "handler \"object_handler.o:at_entry\"",
            ],
        ),
        (
            "kprobe:vfs_read handler \"/object_handler.o:raw\"",
            &[
                "the program raw",
                "SEC(\"raw_tp\")",
                "programs of SEC(\"kprobe\")",
            ],
        ),
        (
            "fentry:vfs_read handler \"/object_raw.o\"",
            &["no program of object_raw.o fits fentry:vfs_read", "on_enter"],
        ),
        (
            "kprobe:vfs_read handler \"/object_refused.o:nobody\"",
            &["has no program nobody"],
        ),
        ("kprobe:vfs_read handler object_handler.o", &["in quotes"]),
    ] {
        let found = printed(row);
        assert!(found.contains("wrong.kst:1:"), "{row}: {found}");
        for word in words {
            assert!(found.contains(word), "{row}: no {word:?} in {found}");
        }
    }
    // The verifier's refusals are printed as for objects that are run, and nothing is left.
    let bad = table_file(
        "refused",
        "table main { syscalls:sys_enter_getppid handler \"/object_refused.o\" }",
    );
    assert_ne!(kestrel(&["start", &bad]).code, Some(0));
    gone(&before);
}
