//! Values that differ by event or by kernel: what programs are not given, and the names of the events that one program serves.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::{collections::BTreeSet, fs};
use vm_tests::{TRACEFS, kestrel, recording::records};

/// Opens, reads and writes by more than one process.
const WORK: &str = "/bin/dd if=/proc/version of=/dev/null 2>/dev/null; /bin/true";

/// Fields of a tracepoint's entry as its format has them, and whether each is there in full or only its place.
fn format(event: &str) -> Vec<(String, bool)> {
    let path = format!("{TRACEFS}/events/{}/format", event.replace(':', "/"));
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("field:"));
    let fields = lines.filter_map(|line| {
        let declared = line.split(';').next()?;
        let name = declared.split_whitespace().last()?.split('[').next()?;
        Some((name.to_owned(), !declared.starts_with("__data_loc")))
    });
    fields.filter(|(name, _)| !name.starts_with("common_")).collect()
}

#[test]
fn a_call_reads_the_same_alone_and_among_many() {
    for events in [
        "syscalls:sys_enter_openat,syscalls:sys_exit_openat",
        "syscalls:*open*",
    ] {
        let line = "for i in 1 2 3 4 5 6 7 8; do /bin/cat /none; done 2>/dev/null; true";
        let words = [
            "record",
            "-o",
            "/tmp/values",
            "-e",
            events,
            "--",
            "/bin/sh",
            "-c",
            line,
        ];
        kestrel(&words).success();
        let text = kestrel(&["print", "/tmp/values"]).success();
        let json = kestrel(&["print", "/tmp/values", "--format", "json"]).success();
        for (line, object) in [(" dfd=AT_FDCWD ", "\"dfd\":-100,"), (" ret=-2\n", "\"ret\":-2}")] {
            assert!(text.contains(line), "{events}: {line} is not in\n{text}");
            assert_eq!(
                text.matches(line).count(),
                json.matches(object).count(),
                "{events}: {object}"
            );
        }
        assert!(!text.contains("ret=0xfffff"), "{text}");
    }
}

#[test]
fn fields_that_bpf_programs_lack_are_left_out_and_refused() {
    for (event, text) in [
        ("syscalls:sys_enter_openat", "filename"),
        ("syscalls:sys_enter_execve", "filename"),
        ("syscalls:sys_enter_write", "buf"),
    ] {
        let fields = format(event);
        let given: BTreeSet<String> = fields.iter().filter(|f| f.1).map(|f| f.0.clone()).collect();
        let listed = kestrel(&["list", "-v", event]).success();
        for via in [&[][..], &["--via", "classic"]] {
            let words = [
                &["record", "-o", "/tmp/values", "-e", event],
                via,
                &["--", "/bin/sh", "-c", WORK],
            ];
            kestrel(&words.concat()).success();
            let records = records("/tmp/values");
            assert!(!records.is_empty(), "{event}");
            for record in records {
                let names: BTreeSet<String> = record.fields.keys().cloned().collect();
                assert_eq!(names, given, "{event} {via:?}");
            }
        }
        let withheld = fields.iter().filter(|f| !f.1).map(|f| f.0.as_str());
        for field in withheld {
            assert!(!listed.contains(field), "{listed}");
            for way in [None, Some("auto"), Some("raw"), Some("classic")] {
                for events in [event, "syscalls:sys_enter_*"] {
                    let asked = format!("{events} {{ record(args.{field}) }}");
                    // A set of all calls asks each for it; a single one gives the reason.
                    if events != event && way.is_some() {
                        continue;
                    }
                    let via: Vec<&str> = way.into_iter().flat_map(|via| ["--via", via]).collect();
                    let words = [
                        &["record", "-o", "/tmp/none", "-e", &asked],
                        &via[..],
                        &["--", "/bin/true"],
                    ];
                    let run = kestrel(&words.concat());
                    assert_ne!(run.code, Some(0), "{asked}: {}", run.err);
                    if events == event {
                        let hint = format!("str(args.{text})");
                        assert!(run.err.contains("cannot be had"), "{asked}: {}", run.err);
                        assert!(
                            field != format!("__{text}_val") || run.err.contains(&hint),
                            "{}",
                            run.err
                        );
                    }
                }
            }
        }
    }
}

/// Rows of the map `@x` that a run printed, by their keys.
fn rows(run: &vm_tests::Run) -> std::collections::BTreeMap<String, u64> {
    let lines = run.out.lines().chain(run.err.lines());
    let rows = lines.filter_map(|line| {
        let (key, count) = line.strip_prefix("@x[")?.split_once("]: ")?;
        Some((key.to_owned(), count.trim().parse().ok()?))
    });
    rows.collect()
}

/// Runs a command that reads a file under a handler; gives what its map holds and what it recorded.
fn traced(
    events: &str,
) -> (
    std::collections::BTreeMap<String, u64>,
    Vec<vm_tests::recording::Record>,
) {
    let command = ["--", "/bin/sh", "-c", WORK];
    let words = [&["record", "-o", "/tmp/values", "-e", events], &command[..]].concat();
    let run = kestrel(&words);
    let found = rows(&run);
    let records = match events.contains("record(") {
        true => records("/tmp/values"),
        false => Vec::new(),
    };
    (found, records)
}

#[test]
fn events_of_one_program_bear_their_own_names() {
    // Functions, system calls, tracepoints that are alike and such that are not: however many programs serve them.
    for (events, must) in [
        ("kprobe:vfs_r*", "kprobe:vfs_read"),
        ("kretprobe:vfs_r*", "kretprobe:vfs_read"),
        ("syscalls:sys_enter_*", "syscalls:sys_enter_openat"),
        ("syscalls:sys_exit_*", "syscalls:sys_exit_read"),
        ("sched:sched_*", "sched:sched_process_exit"),
        (
            "tracepoint:syscalls:sys_enter_openat",
            "syscalls:sys_enter_openat",
        ),
    ] {
        let (map, records) = traced(&format!("{events} {{ @x[probe] = count(); record(probe) }}"));
        assert!(map.contains_key(must), "{events}: {map:?}");
        assert!(map.keys().all(|key| !key.contains('*')), "{events}: {map:?}");
        assert!(records.iter().any(|r| r.event == must), "{events}");
        for record in &records {
            assert_eq!(record.text("probe"), record.event, "{events}");
        }
        let one = format!("{events} /probe == \"{must}\"/ {{ @x[probe] = count(); record(probe) }}");
        let (map, records) = traced(&one);
        assert_eq!(map.keys().collect::<Vec<_>>(), [must], "{one}");
        assert!(
            !records.is_empty() && records.iter().all(|r| r.event == must),
            "{one}"
        );
        let (map, _) = traced(&format!(
            "{events} /probe != \"{must}\"/ {{ @x[probe] = count() }}"
        ));
        assert!(!map.contains_key(must), "{events}: {map:?}");
    }
}

#[test]
fn functions_of_one_program_bear_their_own_names() {
    for kind in ["kprobe", "kretprobe"] {
        let (map, _) = traced(&format!("{kind}:vfs_r* {{ @x[func] = count() }}"));
        assert!(map.contains_key("vfs_read"), "{map:?}");
        assert!(
            map.keys()
                .all(|key| key.starts_with("vfs_r") && !key.contains('+')),
            "{map:?}"
        );
        let (_, records) = traced(&format!("{kind}:vfs_r* {{ record(func, probe) }}"));
        assert!(!records.is_empty());
        for record in &records {
            assert_eq!(format!("{kind}:{}", record.text("func")), record.event);
            assert_eq!(record.text("probe"), record.event);
        }
        let (map, _) = traced(&format!(
            "{kind}:vfs_r* /func == \"vfs_read\"/ {{ @x[func] = count() }}"
        ));
        assert_eq!(map.keys().collect::<Vec<_>>(), ["vfs_read"]);
    }
    // Several programs share one map.
    let (map, _) = traced("kprobe:vfs_r*,kprobe:do_exit,kretprobe:vfs_o* { @x[func] = count() }");
    assert!(
        map.contains_key("vfs_read") && map.contains_key("vfs_open"),
        "{map:?}"
    );
}

#[test]
fn several_probes_stand_in_one_text() {
    let text = "kprobe:vfs_read { @s[tid] = nsecs }\n\
                kretprobe:vfs_read /@s[tid]/ { @x[probe] = count(); delete(@s[tid]); record(retval) }";
    let (map, records) = traced(text);
    assert_eq!(map.keys().collect::<Vec<_>>(), ["kretprobe:vfs_read"]);
    assert!(!records.is_empty() && records.iter().all(|r| r.event == "kretprobe:vfs_read"));
    let wrong = "kprobe:vfs_read { record() }\nkprobe:vfs_read { record(nonsense) }";
    let run = kestrel(&["record", "-o", "/tmp/none", "-e", wrong, "--", "/bin/true"]);
    assert_ne!(run.code, Some(0));
    assert!(run.err.contains(":2:26:"), "{}", run.err);
}

#[test]
fn a_field_is_named_once() {
    let (_, records) = traced("syscalls:sys_enter_close { record(args.fd, args) }");
    assert!(!records.is_empty());
    for record in &records {
        assert_eq!(record.number("fd"), record.number("fd_2"));
    }
}

#[test]
fn the_numa_node_is_that_of_the_cpu() {
    let run = kestrel(&[
        "record",
        "-o",
        "/tmp/numa",
        "-e",
        "syscalls:sys_enter_getppid { record(cpu, numaid) }",
        "--",
        "calls",
        "getppid",
        "50",
        "2",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let all = records("/tmp/numa");
    assert_eq!(all.len(), 100);
    for record in all {
        let (cpu, node) = (record.number("cpu"), record.number("numaid"));
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/node{node}");
        assert!(std::path::Path::new(&folder).exists(), "{folder}");
    }
}
