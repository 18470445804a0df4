//! Function probes: counted against programs that call the function so many times, with the values that were asked for.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::recording::{Counts, Record, Recorder, record_command};

/// Reads of one byte that the program makes; what its start-up reads is no byte long, but more.
const READS: usize = 100;

/// Records an event over a program that reads.
fn over_reads(event: &str) -> (Vec<Record>, Counts) {
    let (records, counts) = record_command(&["-e", event], &["calls", "read", &READS.to_string()]);
    assert_eq!(counts.lost, 0);
    (records, counts)
}

fn of_one_byte<'a>(records: &'a [Record], field: &str) -> Vec<&'a Record> {
    records.iter().filter(|r| r.number(field) == 1).collect()
}

#[test]
fn kprobe_counts_and_has_the_arguments() {
    let (records, counts) = over_reads("kprobe:vfs_read { record(arg2, args.count, file = args.file) }");
    let ours = of_one_byte(&records, "arg2");
    assert!(counts.explain(ours.len(), READS), "{}: {counts:?}", ours.len());
    assert!(ours.iter().all(|r| r.number("count") == 1));
    assert!(records.iter().all(|r| r.text("file").starts_with("0xffff")));
}

#[test]
fn kretprobe_counts_and_has_the_return_value() {
    let (records, counts) = over_reads("kretprobe:vfs_read");
    let ours = of_one_byte(&records, "retval").len();
    assert!(counts.explain(ours, READS), "{ours}: {counts:?}");
}

#[test]
fn fentry_counts_and_has_the_arguments() {
    // Its programs may be preempted on every kernel, which then skips hits of others on that CPU.
    let (records, counts) = over_reads("fentry:vfs_read");
    let ours = of_one_byte(&records, "count").len();
    assert!(counts.explain(ours, READS), "{ours}: {counts:?}");
}

#[test]
fn fexit_counts_and_has_arguments_and_result() {
    let (records, counts) = over_reads("fexit:vfs_read { record() }");
    let ours = of_one_byte(&records, "count");
    assert!(counts.explain(ours.len(), READS), "{}: {counts:?}", ours.len());
    assert!(ours.iter().all(|r| r.number("retval") == 1));
}

#[test]
fn all_kinds_at_once_agree() {
    let events = [
        "kprobe:vfs_read",
        "kretprobe:vfs_read",
        "fentry:vfs_read",
        "fexit:vfs_read",
        "syscalls:sys_enter_read",
        "syscalls:sys_exit_read",
    ];
    let options: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    let (records, counts) = record_command(&options, &["calls", "read", "100"]);
    let of = |event: &str| records.iter().filter(|r| r.event == event).count() as u64;
    for event in events {
        let (count, first) = (of(event), of(events[0]));
        assert!(
            count.abs_diff(first) <= counts.missed,
            "{count} of {event} beside {first} of {}: {counts:?}",
            events[0]
        );
        assert!(count + counts.missed >= 100, "{event}: {count}");
    }
}

#[test]
fn sets_distinguish_their_members() {
    // A multi link where the kernel has it, single links elsewhere: 6.1.
    for event in ["k:vfs_*", "kr:vfs_*", "k:vfs_read,k:vfs_write,k:vfs_open"] {
        let (records, counts) = record_command(&["-e", event], &["calls", "read", "100"]);
        let reads = records.iter().filter(|r| r.event.ends_with(":vfs_read")).count();
        let opens = records.iter().filter(|r| r.event.ends_with(":vfs_open")).count();
        let missed = counts.missed as usize;
        assert!(reads < 105 && reads + missed >= 100, "{event}: {reads} reads");
        assert!(opens < 5 && opens + missed >= 1, "{event}: {opens} opens");
        assert_eq!(counts.lost, 0);
    }
}

#[test]
fn predicates_filter_events() {
    let event = "kprobe:vfs_read /arg2 == 1 && comm == \"calls\"/ { record(arg2) }";
    let (records, counts) = over_reads(event);
    assert!(
        counts.explain(records.len(), READS),
        "{}: {counts:?}",
        records.len()
    );
    let event = "kprobe:vfs_read /args.count > 1 || pid == 0/ { record(arg2) }";
    assert!(over_reads(event).0.iter().all(|r| r.number("arg2") > 1));
    assert_eq!(over_reads("kprobe:vfs_read /comm == \"cells\"/").0.len(), 0);
}

#[test]
fn texts_are_read_from_the_process_and_the_kernel() {
    let event = "kprobe:do_sys_openat2 { record(path = str(arg1), args.dfd) }";
    let (records, counts) = over_reads(event);
    let paths: Vec<&str> = records.iter().map(|r| r.text("path")).collect();
    assert!(
        paths.contains(&"/dev/zero") || counts.missed > 0,
        "{paths:?}: {counts:?}"
    );
    let event = "kprobe:vfs_read { record(name = kstr(args.file->f_path.dentry->d_name.name)) }";
    let (records, counts) = over_reads(event);
    let zero = records.iter().filter(|r| r.text("name") == "zero").count();
    assert!(counts.explain(zero, READS), "{zero}: {:?}", records.first());
}

/// The functions of a stack, innermost first.
fn frames(record: &Record) -> Vec<String> {
    let stack = record.fields["kstack"].as_array().unwrap();
    stack.iter().map(|frame| frame.to_string()).collect()
}

#[test]
fn kernel_stacks_lead_from_the_function_to_the_system_call() {
    for event in [
        "kprobe:vfs_read { record(kstack) }",
        "fentry:vfs_read { record(kstack) }",
        "rawtracepoint:sys_enter { record(kstack) }",
        "syscalls:sys_enter_read { record(kstack) }",
    ] {
        let (records, counts) = over_reads(event);
        let all = records.len() as u64 + counts.missed;
        assert!(all >= READS as u64, "{event}: {}", records.len());
        for record in &records {
            let frames = frames(record);
            let has = |name: &str| frames.iter().any(|f| f.contains(name));
            assert!(
                has("do_syscall_64") || has("entry_SYSCALL_64"),
                "{event}: no system call in {frames:?}"
            );
            if event.contains("vfs_read") {
                assert!(has("vfs_read"), "{event}: {frames:?}");
            }
        }
        println!("{event}: {:?}", frames(&records[0]));
    }
    let (records, counts) = over_reads("kretprobe:vfs_read { record(kstack) }");
    let named = records
        .iter()
        .filter(|r| frames(r).iter().any(|f| f.contains("ksys_read")))
        .count();
    assert!(
        named as u64 + counts.missed >= READS as u64,
        "{:?}",
        frames(&records[0])
    );
}

#[test]
fn structs_by_value_and_stack_words_are_arguments() {
    let file = "/tmp/kestrel-owned";
    std::fs::write(file, "x").unwrap();
    std::os::unix::fs::chown(file, Some(1234), None).unwrap();
    // A struct of 4 bytes, and the one of 16 that leaves a register for what follows it.
    let recording = Recorder::start(
        "by-value",
        &[
            "-a",
            "-e",
            "jprobe:from_kuid_munged",
            "-e",
            "kprobe:from_kuid_munged { record(id = args.kuid.val, same = args.kuid) }",
            "-e",
            "jprobe:sk_setsockopt",
            "-e",
            "kprobe:sk_setsockopt { record(args.optname, args.optlen, user = args.optval.is_kernel, length = arg5) }",
            "-e",
            "kprobe:do_mmap { record(a = arg6, pages = args.pgoff, populate = args.populate, length = args.len) }",
            "-e",
            "jprobe:do_mmap",
        ],
    );
    std::fs::metadata(file).unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0");
    let sent = socket.and_then(|socket| socket.set_broadcast(true));
    let shown = std::fs::read("/proc/self/maps").unwrap();
    assert!(!shown.is_empty());
    // A library is mapped at several offsets.
    vm_tests::run("sh", &["-c", "true"]).success();
    let (records, _, printed) = recording.stop();
    let own: Vec<&Record> = records
        .iter()
        .filter(|record| record.pid == u64::from(std::process::id()))
        .collect();
    let of = |event: &str| -> Vec<&Record> {
        own.iter()
            .filter(|record| record.event == event)
            .copied()
            .collect()
    };
    let ids = of("kprobe:from_kuid_munged");
    assert!(
        ids.iter().any(|record| record.number("id") == 1234),
        "{printed} {ids:?}"
    );
    assert!(
        ids.iter()
            .all(|record| record.number("id") == record.number("same"))
    );
    let by_name: Vec<i64> = of("jprobe:from_kuid_munged")
        .iter()
        .map(|record| record.number("kuid"))
        .collect();
    assert!(by_name.contains(&1234), "{printed} {by_name:?}");
    if sent.is_ok() {
        let options = of("kprobe:sk_setsockopt");
        let broadcast = options
            .iter()
            .find(|record| record.number("optname") == 6)
            .unwrap();
        assert_eq!(
            (broadcast.number("optlen"), broadcast.number("length")),
            (4, 4),
            "{broadcast:?}"
        );
        let typed = of("jprobe:sk_setsockopt");
        let typed = typed.iter().find(|record| record.number("optname") == 6).unwrap();
        assert_eq!(typed.number("optlen"), 4, "what follows the struct: {typed:?}");
    }
    let maps: Vec<&Record> = records
        .iter()
        .filter(|record| record.event == "kprobe:do_mmap")
        .collect();
    assert!(!maps.is_empty(), "{printed}");
    // The seventh parameter is one of these, as the kernel's version has it.
    let seventh = |field: &str| {
        maps.iter()
            .all(|record| record.fields[field] == record.fields["a"])
    };
    let as_bits = |record: &&&Record, field: &str| {
        let text = record.fields[field].to_string();
        let text = text.trim_matches('"');
        text.strip_prefix("0x").map_or_else(
            || text.parse().ok(),
            |digits| u64::from_str_radix(digits, 16).ok(),
        )
    };
    let same = |field: &str| {
        maps.iter()
            .all(|record| as_bits(&record, field) == as_bits(&record, "a"))
    };
    assert!(seventh("pages") || same("populate"), "{maps:?}");
}

#[test]
fn a_pattern_finds_functions_by_the_names_that_are_not_listed() {
    // Its symbol is listed as `__do_sys_getppid`, since it takes no arguments.
    let run = vm_tests::kestrel(&[
        "record",
        "-o",
        "/tmp/other-names",
        "-e",
        "kprobe:__x64_sys_getp*id /comm == \"calls\"/ { record(probe) }",
        "--",
        "calls",
        "getppid",
        "50",
    ]);
    run.success();
    let records = vm_tests::recording::records("/tmp/other-names");
    std::fs::remove_dir_all("/tmp/other-names").unwrap();
    let of = |name: &str| records.iter().filter(|record| record.event == name).count();
    assert_eq!(of("kprobe:__x64_sys_getppid"), 50, "{:?}", records.first());
    let all = vm_tests::kestrel(&["list", "kprobe:__x64_sys_getp*id"]).success();
    assert!(
        all.contains("__x64_sys_getppid") && all.contains("__x64_sys_getpgid"),
        "{all}"
    );
    let both = vm_tests::kestrel(&["list", "kprobe:*_sys_getppid"]).success();
    assert_eq!(
        both.lines().filter(|line| line.contains("_sys_getppid")).count(),
        1,
        "one name for one function: {both}"
    );
}

#[test]
fn a_kernel_stack_that_is_refused_is_no_empty_stack() {
    // While the kernel reads a user's stack it faults, and takes no second stack in the same context.
    let run = vm_tests::kestrel(&[
        "record",
        "-o",
        "/tmp/refused-stacks",
        "-e",
        "exceptions:page_fault_kernel { record(kstack) }",
        "-e",
        "syscalls:sys_enter_* { record(ustack) }",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6 7 8; do ls -l /proc >/dev/null; cat /proc/self/maps >/dev/null; done",
    ]);
    run.success();
    let records = vm_tests::recording::records("/tmp/refused-stacks");
    std::fs::remove_dir_all("/tmp/refused-stacks").unwrap();
    let faults = || {
        records
            .iter()
            .filter(|r| r.event == "exceptions:page_fault_kernel")
    };
    let refused = faults()
        .filter(|record| record.fields["kstack"].is_null())
        .count();
    let taken = faults().filter(|record| {
        record.fields["kstack"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    });
    println!("{refused} of {} refused", faults().count());
    assert!(refused > 0, "the kernel refuses some");
    assert_eq!(taken.count() + refused, faults().count(), "none is empty");
}

/// What is listed can be probed: nothing on the kernel's blacklist, which the refusal names where it is all that matches.
#[test]
fn what_no_kprobe_can_be_at_is_not_listed() {
    let blacklist = vm_tests::shell("cat /sys/kernel/debug/kprobes/blacklist").success();
    let barred: std::collections::HashSet<&str> = blacklist
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert!(barred.contains("do_int3"), "{blacklist}");
    for list in [&["list"][..], &["run", "-l"]] {
        for kind in ["kprobe", "kretprobe"] {
            let pattern = format!("{kind}:*int*");
            let listed = vm_tests::kestrel(&[list, &[&pattern]].concat()).success();
            let names = listed.lines().filter_map(|line| line.split(':').nth(1));
            let wrong: Vec<&str> = names.filter(|name| barred.contains(name)).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
        }
    }
    let alone = vm_tests::kestrel(&["list", "kprobe:do_int3"]);
    assert!(
        alone.code != Some(0) && alone.err.contains("blacklist"),
        "{alone:?}"
    );
    let untraced = vm_tests::kestrel(&["list", "kprobe:__get_user_4"]);
    assert!(
        untraced.code != Some(0) && untraced.err.contains("ftrace"),
        "{untraced:?}"
    );
    assert_eq!(vm_tests::kestrel(&["run", "-l", "kprobe:do_int3"]).success(), "");
    let both = vm_tests::kestrel(&["run", "-l", "kprobe:vfs_read", "kprobe:vfs_write"]).success();
    assert_eq!(both, "kprobe:vfs_read\nkprobe:vfs_write\n");
    // A return has no parameters any more, and none of void a value.
    let returns = vm_tests::kestrel(&["run", "-l", "-v", "kretprobe:vfs_read,fexit:kfree"]).success();
    assert_eq!(
        returns,
        "kretprobe:vfs_read\n    ssize_t retval\nfexit:vmlinux:kfree\n    const void * object\n"
    );
}
