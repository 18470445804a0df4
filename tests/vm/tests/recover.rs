//! Recovery on a kernel that runs: what a recorder that does not answer any more has in its buffers; dead kernels are `cargo xtask recovery`'s.

use std::fs;
use vm_tests::{
    kestrel,
    recording::{Recorder, records},
    run, shell,
};

const CALLS: usize = 3000;

#[test]
fn what_an_unanswering_recorder_has_is_recovered_live() {
    let out = "/tmp/live.recovered";
    let _ = fs::remove_dir_all(out);
    let event = "syscalls:sys_enter_getppid /comm == \"calls\"/";
    let recorder = Recorder::start("held", &["-a", "--overwrite", "-e", event, "-e", "sched:*"]);
    // It keeps the session's last references and answers nobody.
    shell("kill -STOP $(pidof kestrel)").success();
    run("calls", &["getppid", &CALLS.to_string()]).success();
    let told = kestrel(&["recover", "--live", "-o", out]).success();
    let kept = |directory: &str| {
        let records = records(directory);
        records.iter().filter(|r| r.event.contains("getppid")).count()
    };
    let recovered = kept(out);
    assert!(told.contains("0 missing between them"), "{told}");
    shell("kill -CONT $(pidof kestrel)").success();
    let (all, counts, _) = recorder.stop();
    assert_eq!(counts.overwritten, 0);
    let recorded = all.iter().filter(|r| r.event.contains("getppid")).count();
    assert_eq!(
        recovered, recorded,
        "recovering takes nothing away, and nothing is missing from it"
    );
    assert!(
        counts.explain(recovered, CALLS),
        "{recovered} of {CALLS}: {counts:?}"
    );
}

#[test]
fn where_there_is_nothing_it_says_so() {
    let nothing = kestrel(&["recover", "--live", "-o", "/tmp/nothing.recovered"]);
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(
        nothing.err.contains("no session is in this kernel"),
        "{nothing:?}"
    );
    let text = kestrel(&["recover", "/proc/version", "-o", "/tmp/nothing.recovered"]);
    assert_eq!(text.code, Some(1), "{text:?}");
    assert!(!fs::exists("/tmp/nothing.recovered").unwrap_or(true));
}
