//! Table files on real kernels: those that come with Kestrel are right, tables mean what they say, and what they record is there.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::recording::record_command;
use vm_tests::{kestrel, shell, table_file, two_names, wants_all_shapes};

/// Names of the table files that come with Kestrel.
fn shipped() -> Vec<String> {
    let list = kestrel(&["table", "list", "--shipped", "--format", "json"]).success();
    let names = list.lines().map(|line| {
        let line = line.split("\"name\":\"").nth(1).unwrap();
        line.split('"').next().unwrap().to_owned()
    });
    names.collect()
}

/// Files whose programs are among those of `all`: every day they are only resolved.
const PARTS: [&str; 3] = ["flight", "io", "lkst"];

/// `check` compiles every program, which takes an emulated guest a while, so that there are several tests of it; `KESTREL_SHAPES=all` checks the parts,
/// too. What the kernel has is read once for all files of a command.
fn shipped_are_right_here(share: usize) {
    let names = shipped();
    assert!(names.len() >= 8, "{names:?}");
    let whole = wants_all_shapes();
    let (parts, checked): (Vec<String>, Vec<String>) = names
        .into_iter()
        .partition(|name| PARTS.contains(&name.as_str()) && !whole);
    let words = |verb, names: &[String]| -> Vec<String> {
        let names = names.iter().cloned();
        ["table".to_owned(), verb].into_iter().chain(names).collect()
    };
    let run = |words: &[String]| kestrel(&words.iter().map(String::as_str).collect::<Vec<_>>());
    for name in parts.into_iter().skip(share).step_by(SHARES) {
        let shown = run(&words("show".to_owned(), std::slice::from_ref(&name))).success();
        assert!(
            shown.contains("sched:sched_switch") || shown.contains("block:block_rq_issue"),
            "{name}: {shown}"
        );
    }
    let checked: Vec<String> = checked.into_iter().skip(share).step_by(SHARES).collect();
    let printed = run(&words("check".to_owned(), &checked));
    assert_eq!(printed.code, Some(0), "{}{}", printed.out, printed.err);
    for name in &checked {
        let right =
            |line: &str| line.starts_with(&format!("{name}: ")) && line.ends_with("right on this kernel");
        assert_eq!(
            printed.out.lines().filter(|line| right(line)).count(),
            1,
            "{}",
            printed.out
        );
    }
    println!("{}{}", printed.out, printed.err);
}

/// Number of tests of the shipped table files.
const SHARES: usize = 3;

#[test]
fn shipped_table_files_are_right_here() {
    shipped_are_right_here(0);
}

#[test]
fn more_shipped_table_files_are_right_here() {
    shipped_are_right_here(1);
}

#[test]
fn the_other_shipped_table_files_are_right_here() {
    shipped_are_right_here(2);
}

#[test]
fn shipped_tables_are_shown() {
    for (name, event) in [
        ("sched", "sched:sched_switch"),
        ("oom", "oom:mark_victim"),
        ("io", "block:block_rq_issue"),
    ] {
        let shown = kestrel(&["table", "show", name]).success();
        assert!(shown.contains(event), "{name}: {shown}");
    }
}

#[test]
fn classes_count_the_events_of_this_kernel() {
    let all = kestrel(&["list", "--classes"]).success();
    for class in [
        "process",
        "memory",
        "hardware",
        "syscall",
        "io",
        "network",
        "timer",
        "ipc",
        "exception",
    ] {
        let line = all
            .lines()
            .find(|l| l.starts_with(&format!("class:{class} ")))
            .unwrap();
        let events: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(events > 0, "{line}");
        let names = kestrel(&["list", "--classes", "-v", class]).success();
        assert_eq!(names.lines().count(), events + 1, "{class}");
    }
    let verbose = kestrel(&["list", "--classes", "-v", "process"]).success();
    assert!(verbose.contains("    sched:sched_switch\n"), "{verbose}");
}

const TABLES: &str = "
table first {
  syscalls:sys_enter_*                               { record() }
  syscalls:sys_enter_getppid                         { record(number = 1) }
  syscalls:sys_enter_getuid                          { }
  kprobe:vfs_open                                    { record() }
}
table second : first {
  syscalls:sys_enter_getppid /comm == \"calls\"/     { record(number = 2) }
  syscalls:sys_enter_[a-f]*                          { }
}
";

#[test]
fn a_table_decides_the_handler_of_an_event() {
    let path = table_file("masks", TABLES);
    let (records, counts) = record_command(&["--table", &path], &["calls", "getppid", "500"]);
    let own: Vec<_> = records
        .iter()
        .filter(|r| r.event == "syscalls:sys_enter_getppid")
        .collect();
    assert!(counts.explain(own.len(), 500), "{}: {counts:?}", own.len());
    assert!(own.iter().all(|r| r.number("number") == 1));
    let some = |event: &str| counts.missed > 0 || records.iter().any(|r| r.event == event);
    assert!(some("kprobe:vfs_open") && some("syscalls:sys_enter_exit_group"));
    assert!(!records.iter().any(|r| r.event == "syscalls:sys_enter_getuid"));
    // The second table masks some of the set and gives one call another handler.
    let options = ["--table", &path, "--table-name", "second"];
    let (records, counts) = record_command(&options, &["calls", "getppid", "500"]);
    let own: Vec<_> = records
        .iter()
        .filter(|r| r.event == "syscalls:sys_enter_getppid")
        .collect();
    assert!(counts.explain(own.len(), 500), "{}: {counts:?}", own.len());
    assert!(own.iter().all(|r| r.number("number") == 2));
    assert!(!records.iter().any(|r| r.event == "syscalls:sys_enter_exit_group"));
    assert!(
        records
            .iter()
            .any(|r| r.event.starts_with("syscalls:sys_enter_m")),
        "mmap, mprotect"
    );
}

#[test]
fn show_prints_event_handler_and_class() {
    let path = table_file("shown", TABLES);
    let first = kestrel(&["table", "show", &path, "--table", "first"]).success();
    let line = |text: &str, event: &str| -> String {
        let found = text.lines().find(|l| l.split_whitespace().next() == Some(event));
        let found = found.unwrap_or_else(|| panic!("no {event} in {text}"));
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        line(&first, "syscalls:sys_enter_getppid").ends_with(" syscall { record(number = 1) }"),
        "{first}"
    );
    assert!(line(&first, "kprobe:vfs_open").ends_with(" - { record() }"));
    assert!(
        !first.contains("sys_enter_getuid "),
        "masked everywhere: not there"
    );
    let second = kestrel(&["table", "show", &path, "--table", "second"]).success();
    assert!(line(&second, "syscalls:sys_enter_close").ends_with("masked"));
}

#[test]
fn a_whole_class_is_recorded() {
    let path = table_file(
        "class",
        "table all { class:process, class:syscall, class:memory { record() } }",
    );
    // Room for all of it, however late the reader comes.
    let options = ["--table", &path, "--buffer-size", "16M"];
    let (records, _) = record_command(&options, &["sh", "-c", "calls getppid 10; true"]);
    for event in [
        "sched:sched_process_exec",
        "sched:sched_process_exit",
        "syscalls:sys_enter_getppid",
    ] {
        assert!(records.iter().any(|r| r.event == event), "no {event}");
    }
    assert!(records.iter().any(|r| r.event.starts_with("kmem:")));
}

#[test]
fn errors_of_table_files_have_their_place() {
    let path = table_file(
        "wrong",
        "table a { sched:sched_switch { record(args.bogus) }\n  sched:nothing { record() } }",
    );
    let run = kestrel(&["table", "check", &path]);
    assert_eq!(run.code, Some(2), "{}", run.out);
    assert!(
        run.err.contains(&format!(
            "{path}:1:44: error: sched:sched_switch has no field \"bogus\""
        )),
        "{}",
        run.err
    );
    assert!(
        run.err
            .contains(&format!("{path}:2:3: error: this kernel has no tracepoint")),
        "{}",
        run.err
    );
    let run = kestrel(&["record", "--table", &path, "-a", "--duration", "1"]);
    assert_eq!(run.code, Some(2));
    assert!(
        shell("test ! -e kestrel.trace").code == Some(0),
        "nothing was begun"
    );
}

#[test]
fn names_of_one_function_are_one_event() {
    let (listed, other) = two_names();
    let mine = "/comm == \"calls\"/";
    let text = format!(
        "table one {{ kprobe:{other} {mine} {{ record(first = 1) }}  kprobe:{listed} {mine} {{ record(second = 2) }} }}"
    );
    let path = table_file("names", &text);
    let run = kestrel(&["table", "check", &path]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("1 table, 1 event, 1 program"), "{}", run.out);
    let printed = format!("kprobe:{listed} is another name of kprobe:{other}: they are one event");
    assert!(run.err.contains(&printed), "{}", run.err);
    let (records, counts) = record_command(&["--table", &path], &["calls", "getppid", "200"]);
    assert!(
        counts.explain(records.len(), 200),
        "{}: {counts:?}",
        records.len()
    );
    assert!(
        records.iter().all(|r| r.number("second") == 2),
        "{:?}",
        records[0]
    );
    // A mask reaches it by any name, and by a pattern of any.
    let almost = &other[..other.len() - 1];
    for mask in ["*", "vfs_*,kprobe:*getppid", &listed, &format!("{almost}*")] {
        let text = format!("table one {{ kprobe:{other} {{ record() }}  kprobe:{mask} {{ }} }}");
        let shown = kestrel(&["table", "show", &table_file("mask", &text)]).success();
        assert!(shown.contains("table one: 0 events"), "{mask}: {shown}");
    }
    // And a table that is loaded later meets the hook that is there.
    let start = format!("table one {{ kprobe:{other} {mine} {{ record(first = 1) }} }}");
    let later = format!("table two {{ kprobe:vmlinux:{listed} {mine} {{ record(second = 2) }} }}");
    kestrel(&["start", &table_file("start", &start)]).success();
    kestrel(&["table", "load", &table_file("later", &later)]).success();
    kestrel(&["table", "use", "two"]).success();
    let links = shell("ls /sys/fs/bpf/kestrel/main | grep -c '^hook.*link'").success();
    shell("calls getppid 100").success();
    kestrel(&["buffer", "dump", "-o", "/tmp/names.dump"]).success();
    let missed = kestrel(&["status", "--format", "json"]).success();
    kestrel(&["stop"]).success();
    assert_eq!(links.trim(), "1", "one hook for both");
    let status: serde_json::Value = serde_json::from_str(&missed).unwrap();
    let missed = status["programs"][0]["missed"].as_u64().unwrap() as usize;
    let records = vm_tests::recording::records("/tmp/names.dump");
    assert!(records.iter().all(|r| r.number("second") == 2));
    assert!(
        records.len() <= 100 && records.len() + missed >= 100,
        "{} and {missed} missed",
        records.len()
    );
    std::fs::remove_dir_all("/tmp/names.dump").unwrap();
}

#[test]
fn a_name_and_a_pattern_of_one_event_meet_a_handler_once() {
    let (listed, other) = two_names();
    let pattern = "kprobe:*sys_getp*id";
    // A function named by itself bears the name that it was asked for by; one that two patterns match, ftrace's.
    let texts = [
        (format!("kprobe:{other},{pattern}"), &other),
        (format!("{pattern},kprobe:{other}"), &other),
        (format!("{pattern},kprobe:{listed}"), &listed),
        (format!("{pattern},kprobe:*sys_getpp*,kprobe:*sys_*ppid"), &listed),
    ];
    for (events, name) in texts {
        let text = format!("{events} /comm == \"calls\"/ {{ record(pid) }}");
        let (records, counts) = record_command(&["-e", &text], &["calls", "getppid", "200"]);
        let kept = records.len();
        assert!(counts.explain(kept, 200), "{events}: {kept}: {counts:?}");
        let name = format!("kprobe:{name}");
        assert!(
            records.iter().all(|r| r.event == name),
            "{events}: {:?}",
            records[0]
        );
    }
    // An event that is named twice is reported.
    let text = format!("kprobe:{other},{pattern} {{ record(pid) }}");
    let run = kestrel(&["trace", "--dry-run", "-e", &text]);
    let printed = format!("kprobe:{other} is another name of kprobe:{listed}: they are one event");
    assert!(run.err.contains(&printed), "{}", run.err);
}

/// Functions that every kernel has and that a shell's command calls.
const SEVENTEEN: [&str; 17] = [
    "vfs_read",
    "vfs_write",
    "vfs_open",
    "vfs_statx",
    "vfs_getattr",
    "vfs_llseek",
    "vfs_readlink",
    "vfs_create",
    "vfs_mkdir",
    "vfs_rmdir",
    "vfs_unlink",
    "vfs_symlink",
    "vfs_link",
    "vfs_rename",
    "vfs_fsync",
    "vfs_fallocate",
    "vfs_truncate",
];

#[test]
fn functions_named_one_by_one_in_a_table_share_a_link_as_those_of_e_do() {
    let names: Vec<String> = SEVENTEEN.iter().map(|f| format!("kprobe:{f}")).collect();
    for (rows, blocks) in [
        (names.join(", "), ""),
        (names.join(" { count() } "), " { count() }"),
    ] {
        let table = format!("table one {{ {rows}{blocks} }}");
        let file = table_file("seventeen", &table);
        let plan = |words: &[&str]| {
            let shown = kestrel(&[&["trace", "--dry-run"], words].concat()).success();
            shown.matches("attach: ").count()
        };
        assert_eq!(plan(&["--table", &file]), 1, "{table}");
        kestrel(&["start", &file]).success();
        let links = shell("ls /sys/fs/bpf/kestrel/main | grep -c '^hook0.*link'").success();
        let others = shell("ls /sys/fs/bpf/kestrel/main | grep '^hook[1-9]'").out;
        kestrel(&["stop"]).success();
        assert_eq!(others, "", "one hook: {table}");
        // One multi link, or on a kernel without (6.1) one program with a link for each function.
        assert!(["1", "17"].contains(&links.trim()), "{links} links: {table}");
        let is_old = shell("uname -r").success().starts_with("6.1.");
        assert!(is_old || links.trim() == "1", "{links} links: {table}");
    }
    let text = names.join(", ");
    let shown = kestrel(&["trace", "--dry-run", "-e", &text]).success();
    assert_eq!(shown.matches("attach: ").count(), 1, "{shown}");
}
