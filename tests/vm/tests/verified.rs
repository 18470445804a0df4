//! The verifier's work on scripts: the instructions of programs that are like bpftrace's tools stay below limits.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use vm_tests::{kestrel, shell};

/// Scripts, and the most instructions that the verifier may go through of all their programs.
const LIMITS: &[(&str, u64, &str)] = &[
    (
        "strings",
        737,
        r#"begin { printf("TIME PID COMM FILE\n"); }
        kprobe:vfs_mkdir { $name = (struct qstr *)arg2; printf("%-8d %-6d %-16s R %s\n", elapsed / 1e6, pid, comm, str($name->name)); }
        kprobe:vfs_rmdir { $name = (struct qstr *)arg2; @name[tid] = $name->name; }
        kretprobe:vfs_rmdir /@name[tid]/ { printf("%-8d %-6d %-16s M %s\n", elapsed / 1e6, pid, comm, str(@name[tid])); delete(@name, tid); }"#,
    ),
    (
        "five outputs",
        444,
        r#"kprobe:oom_kill_process {
            $control = (struct oom_control *)arg0;
            time("%H:%M:%S ");
            printf("by %d (%s), ", pid, comm);
            if ($control->memcg) { printf("group %ld, ", $control->memcg->css.cgroup->kn->id); }
            printf("killed %d (%s), %d pages: ", $control->chosen->pid, $control->chosen->comm, $control->totalpages);
            cat("/proc/loadavg");
        }"#,
    ),
    (
        "a histogram",
        383,
        r#"kprobe:tcp_v4_syn_recv_sock, kprobe:tcp_v6_syn_recv_sock {
            $sock = (struct sock *)arg0;
            @backlog[$sock->sk_max_ack_backlog & 0xffffffff] = hist($sock->sk_ack_backlog);
            if ($sock->sk_ack_backlog > $sock->sk_max_ack_backlog) { time("%H:%M:%S dropped\n"); }
        }"#,
    ),
    (
        // Some thirty of them find the frames of the tracepoint's own calls, which the stack begins behind.
        "a stack",
        460,
        r#"tracepoint:skb:kfree_skb /args.reason > 2/ {
            $sock = ((struct sk_buff *)args.skbaddr)->sk;
            $to = ntop($sock->__sk_common.skc_daddr);
            time("%H:%M:%S ");
            printf("%-8d %-16s ", pid, comm);
            printf("%39s:%-6d %s\n", $to, $sock->__sk_common.skc_num, @state[$sock->__sk_common.skc_state]);
            printf("%s\n", kstack);
        }
        tracepoint:sched:sched_process_exit { @state[(uint8)1] = "ESTABLISHED"; }"#,
    ),
];

/// Instructions by program, of what the kernel says of each descriptor: `prog_id` before `verified_insns`; links have an id alone.
fn verified(descriptors: &str) -> u64 {
    let mut by_program = BTreeMap::new();
    let mut program = "";
    for line in descriptors.lines() {
        match line.split_once(':').map(|(name, value)| (name, value.trim())) {
            Some(("pos", _)) => program = "",
            Some(("prog_id", id)) => program = id,
            Some(("verified_insns", count)) if !program.is_empty() => {
                by_program.insert(program, count.parse::<u64>().unwrap());
            }
            _ => {}
        }
    }
    by_program.values().sum()
}

#[test]
fn programs_of_scripts_are_within_limits() {
    // The command that a script runs is a child of the tracer, whose descriptors it shows.
    let shown = "/tmp/descriptors.sh";
    fs::write(shown, "#!/bin/sh\ncat /proc/$PPID/fdinfo/* > /tmp/descriptors\n").unwrap();
    fs::set_permissions(shown, fs::Permissions::from_mode(0o755)).unwrap();
    let mut above = Vec::new();
    for &(name, limit, program) in LIMITS {
        let run = kestrel(&["run", "-e", program, "-c", shown]);
        assert_eq!(run.code, Some(0), "{name}: {}", run.err);
        let count = verified(&shell("cat /tmp/descriptors").out);
        assert!(count > 100, "{name}: {count} instructions");
        if count > limit {
            above.push(format!("{name}: {count} instructions, at most {limit}"));
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
}
