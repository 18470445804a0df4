//! Load shapes: handlers of every shape that the language has, loaded and attached for every kind of event.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::recording::{counts, records};
use vm_tests::{kestrel, wants_all_shapes};

/// Kinds of program that attach alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Tracepoints of which each is a hook of its own.
    Tracepoint,
    /// System calls.
    Call,
    Raw,
    /// Entries of functions.
    Entry,
    /// Returns of functions.
    Return,
    /// Sets of functions.
    Set,
}

/// A kind of program: its family, an event that it serves, and how tracepoints are read.
type ProgramShape = (Family, &'static str, &'static str);

/// Kinds of program.
const KINDS: &[ProgramShape] = &[
    (Family::Tracepoint, "sched:sched_switch", "raw"),
    (Family::Tracepoint, "sched:sched_switch", "classic"),
    // Since 6.19 its entry holds the name itself, which only the classic way can read where that page is not in memory.
    (Family::Call, "syscalls:sys_enter_openat", "auto"),
    (Family::Call, "syscalls:sys_enter_openat", "classic"),
    (Family::Call, "syscalls:sys_exit_openat", "raw"),
    (Family::Call, "raw_syscalls:sys_enter", "raw"),
    (Family::Raw, "rawtracepoint:sched_switch", "auto"),
    (Family::Raw, "rawtracepoint:kfree", "auto"),
    (Family::Entry, "kprobe:vfs_read", "auto"),
    (Family::Return, "kretprobe:vfs_read", "auto"),
    (Family::Entry, "fentry:vfs_read", "auto"),
    (Family::Return, "fexit:vfs_read", "auto"),
    (Family::Set, "kprobe:vfs_r*", "auto"),
    (Family::Set, "kretprobe:vfs_r*", "auto"),
];

/// The kinds of a family.
fn kinds(family: Family) -> Vec<ProgramShape> {
    let of: Vec<ProgramShape> = KINDS.iter().copied().filter(|kind| kind.0 == family).collect();
    assert!(!of.is_empty(), "a family without kinds");
    of
}

/// Handlers that suit every kind.
const EVERYWHERE: &[&str] = &[
    "",
    "{ record(pid, tid, uid, gid, cpu, comm) }",
    "{ record(nsecs, elapsed, rand, cgroup) }",
    "{ record(t = curtask) }",
    "{ record(kstack) }",
    "{ record(ustack) }",
    "{ record(kstack, ustack, comm) }",
    "{ record(prio = curtask->prio, flags = curtask->flags, name = kstr(curtask->comm)) }",
    "{ record(up = curtask->real_parent->real_parent->tgid, mm = curtask->mm->total_vm) }",
    "{ record(((struct task_struct *)curtask)->signal->nr_threads) }",
    "/pid > 1 && comm != \"nobody\"/ { record(pid) }",
    "/(uid == 0 || gid > 5) && !(cpu == 77) && pid % 3 != 4/",
    "/curtask->signal->nr_threads < 1000 && curtask->in_execve == 0/ { record(x = curtask->in_execve) }",
    "{ record(a = pid + tid * 2 - (uid << 3) ^ gid, b = nsecs / 1000 % 7, c = (int8)pid, d = pid > 5 ? nsecs : 0) }",
    "{ record(s = pid > 5 ? \"many\" : \"few\") }",
    // More values alive than registers.
    "{ record(a = pid + 1, b = tid + 2, c = uid + 3, d = gid + 4, e = cpu + 5, f = nsecs + 6, g = elapsed + 7, \
       h = curtask->prio + 8, i = (pid + tid) * (uid + gid) + (cpu + pid) * (tid + uid) + (pid * tid + uid * gid)) }",
    "{ record(pid); record(comm) }",
];

/// Handlers for one kind.
const OWN: &[(&str, &[&str])] = &[
    (
        "sched:sched_switch",
        &[
            "/args.prev_pid != 0/ { record(args.prev_comm, args.next_pid, args.prev_state) }",
            "/args.next_comm == \"true\"/",
            "{ record(args, kstack) }",
        ],
    ),
    (
        "syscalls:sys_enter_openat",
        &[
            "{ record(path = str(args.filename), args.flags) }",
            "/str(args.filename) == \"/dev/null\"/",
        ],
    ),
    (
        "raw_syscalls:sys_enter",
        &["/args.id == 1/ { record(fd = args.args[0], n = args.args[2]) }"],
    ),
    (
        "rawtracepoint:sched_switch",
        &[
            "{ record(args.prev->pid, next = args.next->comm) }",
            "/args.prev->__state == 0/ { record(args.next->se.vruntime) }",
        ],
    ),
    (
        "kprobe:vfs_read",
        &[
            "{ record(arg0, arg1, arg2, arg3) }",
            "{ record(args.file, args.count, name = kstr(args.file->f_path.dentry->d_name.name)) }",
            "{ record(inode = args.file->f_inode->i_ino, mode = args.file->f_inode->i_mode) }",
            "{ record(func, probe) }",
            "{ record(p = str(arg1, 16)) }",
        ],
    ),
    (
        "kretprobe:vfs_read",
        &[
            "/retval > 0/ { record(retval) }",
            "{ record(func, probe, retval, kstack) }",
        ],
    ),
    (
        "fentry:vfs_read",
        &[
            "{ record(args.file->f_inode->i_ino, args.count) }",
            "/args.file->f_inode->i_sb->s_blocksize > 0/ { record(args.file->f_flags) }",
            "{ record(func, probe) }",
        ],
    ),
    (
        "fexit:vfs_read",
        &["/retval == args.count/ { record(args.file->f_inode->i_ino, retval) }"],
    ),
    ("kprobe:vfs_r*", &["{ record(func, arg0) }"]),
];

/// Loads and attaches handlers of one event, all at once; where that fails, each alone. Returns those that fail.
fn load(event: &str, via: &str, handlers: &[&str], more: &[&str]) -> Vec<String> {
    let texts: Vec<String> = handlers
        .iter()
        .map(|handler| format!("{event} {handler}"))
        .collect();
    let run_with = |texts: &[String]| {
        let mut arguments = vec!["record", "-o", "/tmp/shape.trace", "--via", via];
        arguments.extend_from_slice(more);
        for text in texts {
            arguments.extend(["-e", text.as_str()]);
        }
        arguments.extend(["--", "cat", "/dev/null"]);
        kestrel(&arguments)
    };
    let all = run_with(&texts);
    if all.code == Some(0) {
        assert_eq!(
            records("/tmp/shape.trace").len() as u64,
            counts(&all.err).recorded
        );
        return Vec::new();
    }
    // Find out which.
    let failed = texts.iter().filter_map(|text| {
        let run = run_with(std::slice::from_ref(text));
        (run.code != Some(0)).then(|| format!("{text} ({via}): {}", run.err))
    });
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        vec![format!("{event} ({via}), only together: {}", all.err)]
    } else {
        failed
    }
}

/// Kinds, and the step at which handlers of EVERYWHERE are taken for each: 1 takes all, 4 every fourth. Handlers of OWN are all taken.
type Share<'a> = (&'a [ProgramShape], usize);

/// The first kinds of a family get all handlers; others whose programs are of the same type get a share, since kprobes and trampolines take a
/// tenth of a second each to detach. `KESTREL_SHAPES=all` tries everything everywhere.
fn check(shares: &[Share<'_>], more: &[&str]) {
    let all = wants_all_shapes();
    let mut failed = Vec::new();
    let mut shapes = 0;
    for (number, (event, via, step)) in shares
        .iter()
        .flat_map(|(kinds, step)| kinds.iter().map(|(_, event, via)| (*event, *via, *step)))
        .enumerate()
    {
        let step = if all { 1 } else { step };
        // Each kind its own share, so that the shares of a family are not the same.
        let mut handlers: Vec<&str> = EVERYWHERE
            .iter()
            .skip(number % step)
            .step_by(step)
            .copied()
            .collect();
        let own = OWN.iter().filter(|(kind, _)| *kind == event);
        handlers.extend(own.flat_map(|(_, own)| own.iter()));
        shapes += handlers.len();
        failed.extend(load(event, via, &handlers, more));
    }
    println!("{shapes} shapes");
    assert!(
        failed.is_empty(),
        "{} of {shapes}:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn tracepoints_stream() {
    check(&[(&kinds(Family::Tracepoint), 1), (&kinds(Family::Call), 4)], &[]);
}

#[test]
fn raw_tracepoints_stream() {
    let kinds = kinds(Family::Raw);
    let (first, others) = kinds.split_at(1);
    check(&[(first, 1), (others, 4)], &[]);
}

#[test]
fn functions_stream() {
    check(&[(&kinds(Family::Entry), 1), (&kinds(Family::Return), 4)], &[]);
}

#[test]
fn sets_stream() {
    check(&[(&kinds(Family::Set), 6)], &["-a"]);
}

#[test]
fn tracepoints_overwrite() {
    let shares = [(&*kinds(Family::Tracepoint), 3), (&*kinds(Family::Call), 6)];
    check(&shares, &["--overwrite", "-a"]);
}

#[test]
fn raw_tracepoints_overwrite() {
    check(&[(&kinds(Family::Raw), 3)], &["--overwrite", "-a"]);
}

#[test]
fn functions_overwrite() {
    let shares = [(&*kinds(Family::Entry), 5), (&*kinds(Family::Return), 5)];
    check(&shares, &["--overwrite"]);
}
