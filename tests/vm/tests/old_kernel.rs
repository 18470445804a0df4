//! A kernel that is too old (5.10): what is missing is named, and what can work works.

use vm_tests::kestrel;

#[test]
fn commands_without_bpf_atomics_refuse_by_name() {
    for event in ["sched:sched_switch", "kprobe:vfs_read"] {
        for verb in ["record", "trace"] {
            let run = kestrel(&[verb, "-e", event, "--", "true"]);
            assert_eq!(run.code, Some(4), "{}", run.err);
            assert!(run.err.contains("BPF atomics"), "{}", run.err);
        }
    }
    let doctor = kestrel(&["doctor"]);
    assert_eq!(doctor.code, Some(4), "{}", doctor.out);
    let line = doctor.out.lines().find(|line| line.contains("atomics"));
    assert!(line.is_some_and(|line| line.contains("no")), "{}", doctor.out);
}

#[test]
fn lists_and_plans_work() {
    let events = kestrel(&["list", "sched:*"]).success();
    assert!(events.contains("sched_switch"), "{events}");
    let plan = kestrel(&["record", "--dry-run", "-e", "sched:sched_switch"]).success();
    assert!(plan.contains("sched_switch"), "{plan}");
}
