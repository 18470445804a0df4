//! Commands that are stopped at each system call that changes something, in turn, and killed there: at every instant there is the old state or the
//! new one, and the next command works.
//!
//! Only the main thread is followed: the others compile and load programs, and change nothing that outlives them.

use super::{TWO, held, nothing_in_the_file_systems, recorded, store, wait_until_gone};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Command, Stdio};
use vm_tests::{kestrel, number_in, run, shell, table_file};

/// Commands of bpf(2) that change something which outlives the process: map elements, pins, links.
const BPF: [u64; 8] = [2, 3, 6, 17, 24, 26, 27, 28];
/// write, ioctl, rename, mkdir, rmdir, link, unlink, openat (it may make a file), mkdirat, unlinkat, renameat, linkat, perf_event_open, renameat2.
const OTHERS: [u64; 14] = [1, 16, 82, 83, 84, 86, 87, 257, 258, 263, 264, 265, 298, 316];
const BPF_CALL: u64 = 321;
const CREATE: u64 = 0o100;

/// Runs a command until it enters the system call of this number among those that change something, and kills it there; gives how many of them
/// it had entered if it ended by itself.
#[allow(clippy::zombie_processes, reason = "it is waited for by its number")]
fn step(words: &[&str], kill_at: Option<usize>) -> Result<usize, ()> {
    let child = Command::new("sh")
        .args(["-c", "kill -STOP $$; exec kestrel \"$@\"", "sh"])
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    ptrace::seize(pid, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL).unwrap();
    nix::sys::signal::kill(pid, Signal::SIGCONT).unwrap();
    let (mut entered, mut seen, mut running) = (false, 0, false);
    loop {
        match waitpid(pid, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => {
                entered = !entered;
                let regs = ptrace::getregs(pid).unwrap();
                let changes = match regs.orig_rax {
                    BPF_CALL => BPF.contains(&regs.rdi),
                    257 => regs.rdx & CREATE != 0,
                    call => OTHERS.contains(&call),
                };
                // Calls of the shell before it becomes the command do not count.
                running |= regs.orig_rax == BPF_CALL;
                if entered && changes && running {
                    seen += 1;
                    if Some(seen) == kill_at {
                        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
                        while !matches!(waitpid(pid, None).unwrap(), WaitStatus::Signaled(..)) {}
                        return Err(());
                    }
                }
                ptrace::syscall(pid, None).unwrap();
            }
            WaitStatus::Exited(..) => return Ok(seen),
            WaitStatus::Stopped(_, signal) => ptrace::syscall(pid, Some(signal)).unwrap(),
            WaitStatus::PtraceEvent(..) => ptrace::syscall(pid, None).unwrap(),
            other => panic!("{words:?}: {other:?}"),
        }
    }
}

/// At which of so many system calls a command is killed: at all of them on request, else at a few, others each time.
fn chosen(all: usize) -> Vec<usize> {
    let wanted = number_in("KESTREL_KILLS", 3) as usize;
    let stride = all.div_ceil(wanted.max(1)).max(1);
    let first = std::process::id() as usize % stride;
    (1 + first..=all).step_by(stride).collect()
}

const DUMP: &str = "/tmp/steps.dump";

/// The session works: it counts what happens, once, and what it holds can be dumped and read.
fn works(words: &[&str], at: usize) {
    let what = format!("{words:?} killed at {at}");
    let dumped = kestrel(&["buffer", "dump", "-o", DUMP]);
    assert_eq!(dumped.code, Some(0), "{what}: {dumped:?}");
    let report = kestrel(&["report", DUMP]);
    let empty = report.code == Some(1) && report.err.contains("holds no events");
    assert!(empty || report.code == Some(0), "{what}: {report:?}");
    let store = store();
    let before = recorded(&store, "steps").0[0];
    shell("calls getppid 20").success();
    let (after, missed) = recorded(&store, "steps");
    let new = after[0] - before;
    assert!(
        new <= 20 && new + missed >= 20,
        "{what}: {new} of 20, missed {missed}"
    );
}

#[test]
fn commands_killed_between_any_two_system_calls_leave_the_old_or_the_new() {
    if !cfg!(target_arch = "x86_64") {
        return vm_tests::skip("system calls are told apart by the numbers of x86_64");
    }
    let before = held();
    let file = table_file("steps", TWO);
    let third = table_file(
        "steps3",
        r#"table c { syscalls:sys_enter_getppid /comm == "calls"/ { record(tid, to("one")) } }"#,
    );
    let start = ["start", "steps", file.as_str()];
    let all = step(&start, None).unwrap();
    kestrel(&["stop", "steps"]).success();
    println!("start: {all} system calls");
    for at in chosen(all) {
        if step(&start, Some(at)).is_err() {
            let there = kestrel(&["status", "--interval", "0"]);
            assert_eq!(
                there.code,
                Some(i32::from(store().names().unwrap().is_empty())),
                "{at}: {there:?}"
            );
        }
        match store().names().unwrap().is_empty() {
            true => {
                kestrel(&start).success();
            }
            false => works(&start, at),
        }
        kestrel(&["stop", "steps"]).success();
    }
    kestrel(&start).success();
    let sizes = ["32k", "64k", "128k"];
    let mut turn = 0;
    let mut resize = || {
        turn += 1;
        ["buffer", "resize", "one", sizes[turn % 3]]
    };
    kestrel(&resize()).success();
    let all = step(&resize(), None).unwrap();
    println!("resize: {all} system calls");
    for at in chosen(all) {
        let words = resize();
        _ = step(&words, Some(at));
        works(&words, at);
        kestrel(&resize()).success();
        works(&words, at);
    }
    let load = ["table", "load", third.as_str()];
    let all = step(&load, None).unwrap();
    println!("load: {all} system calls");
    for at in chosen(all) {
        _ = step(&load, Some(at));
        works(&load, at);
        kestrel(&["table", "load", file.as_str(), "--table", "a"]).success();
        works(&load, at);
    }
    let dump = ["buffer", "dump", "-o", DUMP];
    let all = step(&dump, None).unwrap();
    println!("dump: {all} system calls");
    for at in chosen(all) {
        _ = step(&dump, Some(at));
        let whole = Path::new(DUMP).join(".kestrel/summary.json").exists();
        assert!(whole || !Path::new(DUMP).exists(), "{at}: a half is there");
        works(&dump, at);
    }
    run("rm", &["-rf", DUMP]).success();
    kestrel(&["stop"]).success();
    nothing_in_the_file_systems();
    wait_until_gone(&before);
}
