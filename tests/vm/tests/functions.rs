//! Function probes: counted against programs that call the function so many times, with the values that were asked for.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::recording::{Record, record_command};

/// Reads of one byte that the program makes; what its start-up reads is no byte long, but more.
const READS: usize = 100;

/// Records an event over a program that reads.
fn over_reads(event: &str) -> Vec<Record> {
    let (records, counts) = record_command(&["-e", event], &["calls", "read", &READS.to_string()]);
    assert_eq!((counts.lost, counts.skipped), (0, 0));
    records
}

fn of_one_byte<'a>(records: &'a [Record], field: &str) -> Vec<&'a Record> {
    records.iter().filter(|r| r.number(field) == 1).collect()
}

#[test]
fn kprobe_counts_and_knows_what_was_asked() {
    let records = over_reads("kprobe:vfs_read { record(arg2, args.count, file = args.file) }");
    let ours = of_one_byte(&records, "arg2");
    assert_eq!(ours.len(), READS);
    assert!(ours.iter().all(|r| r.number("count") == 1));
    assert!(records.iter().all(|r| r.text("file").starts_with("0xffff")));
}

#[test]
fn kretprobe_counts_and_knows_what_came_of_it() {
    let records = over_reads("kretprobe:vfs_read");
    assert_eq!(of_one_byte(&records, "retval").len(), READS);
}

#[test]
fn fentry_counts_and_knows_what_was_asked() {
    let records = over_reads("fentry:vfs_read");
    assert_eq!(of_one_byte(&records, "count").len(), READS);
}

#[test]
fn fexit_counts_and_knows_both() {
    let records = over_reads("fexit:vfs_read { record(args.count, retval) }");
    let ours = of_one_byte(&records, "count");
    assert_eq!(ours.len(), READS);
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
    let (records, _) = record_command(&options, &["calls", "read", "100"]);
    for event in events {
        let count = records.iter().filter(|r| r.event == event).count();
        let first = records.iter().filter(|r| r.event == events[0]).count();
        assert_eq!(count, first, "{event} beside {}", events[0]);
        assert!(count >= 100);
    }
}

#[test]
fn sets_tell_their_members_apart() {
    // A multi link where the kernel has it, single links elsewhere: 6.1.
    for event in ["k:vfs_*", "kr:vfs_*", "k:vfs_read,k:vfs_write,k:vfs_open"] {
        let (records, counts) = record_command(&["-e", event], &["calls", "read", "100"]);
        let reads = records.iter().filter(|r| r.event.ends_with(":vfs_read")).count();
        let opens = records.iter().filter(|r| r.event.ends_with(":vfs_open")).count();
        assert!((100..105).contains(&reads), "{event}: {reads} reads");
        assert!((1..5).contains(&opens), "{event}: {opens} opens");
        assert_eq!(counts.lost, 0);
    }
}

#[test]
fn predicates_let_in_what_they_say() {
    let event = "kprobe:vfs_read /arg2 == 1 && comm == \"calls\"/ { record(arg2) }";
    assert_eq!(over_reads(event).len(), READS);
    let event = "kprobe:vfs_read /args.count > 1 || pid == 0/ { record(arg2) }";
    assert!(over_reads(event).iter().all(|r| r.number("arg2") > 1));
    assert_eq!(over_reads("kprobe:vfs_read /comm == \"cells\"/").len(), 0);
}

#[test]
fn texts_are_read_from_the_process_and_the_kernel() {
    let event = "kprobe:do_sys_openat2 { record(path = str(arg1), args.dfd) }";
    let records = over_reads(event);
    let paths: Vec<&str> = records.iter().map(|r| r.text("path")).collect();
    assert!(paths.contains(&"/dev/zero"), "{paths:?}");
    let event = "kprobe:vfs_read { record(name = kstr(args.file->f_path.dentry->d_name.name)) }";
    let records = over_reads(event);
    let zero = records.iter().filter(|r| r.text("name") == "zero").count();
    assert_eq!(zero, READS, "{:?}", records.first());
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
        let records = over_reads(event);
        assert!(records.len() >= READS, "{event}: {}", records.len());
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
    let records = over_reads("kretprobe:vfs_read { record(kstack) }");
    let named = records
        .iter()
        .filter(|r| frames(r).iter().any(|f| f.contains("ksys_read")))
        .count();
    assert!(named >= READS, "{:?}", frames(&records[0]));
}
