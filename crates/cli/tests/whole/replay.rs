//! Programs over recordings: the same program on a kernel and over the recording of the same run, and what is not in a recording.

use crate::command::{WorkFolder, needs_tracing};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Opens and reads files in one process when a line comes.
const WORK: &str = r#"
    echo ready; read go; i=0
    while [ $i -lt 40 ]; do
        read x < /proc/version; read x < /etc/passwd; read x < /nowhere; exec 3< /dev/null; exec 3<&-; i=$((i+1))
    done 2> /dev/null"#;

pub(crate) struct Work(Child);

impl Work {
    pub(crate) fn start() -> Self {
        let mut child = Command::new("sh")
            .args(["-c", WORK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Self(child)
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Lets it work, to its end.
    pub(crate) fn work(mut self) {
        self.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Waits until a program has printed its `begin`: events are let in before that is written. Gives what it has printed, and the rest to be read.
pub(crate) fn begun(run: &mut Child) -> (String, ChildStdout) {
    let mut out = run.stdout.take().unwrap();
    let mut printed = String::new();
    while !printed.ends_with("begin\n") {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        printed.push(char::from(byte[0]));
    }
    (printed, out)
}

/// Waits until a recorder with `-v` has let events in, which it says behind having attached; gives what it said so far.
fn recording(stderr: &mut impl BufRead) -> String {
    let mut messages = String::new();
    while !messages.contains("recording into") {
        assert!(
            stderr.read_line(&mut messages).unwrap() > 0,
            "no recording begins: {messages}"
        );
    }
    messages
}

/// Lines of output in an order of their own: the order of keys in loops over maps is the kernel's.
pub(crate) fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    lines
}

const PROGRAM: &str = r#"
    config = { show_debug_info = false }
    syscalls:sys_enter_read /pid == $1/ {
        @start[tid] = nsecs; @bytes[comm, args.fd] = sum(args.count); @most = max(args.count); @least[comm] = min(args.count);
        @mean[args.fd] = avg(args.count); @all = stats(args.fd);
    }
    syscalls:sys_exit_read /@start[tid]/ {
        if (nsecs < @start[tid]) { @backwards++; }
        delete(@start, tid);
        @calls[comm, args.ret > 0 ? 1 : args.ret] = count(); @linear = lhist(args.ret, 0, 1000, 100); @powers[pid] = hist(args.ret);
    }
    syscalls:sys_exit_read /pid == $1/ { @n++; @last[tid] = args.ret; @pair[(comm, tid)] = (args.ret, probe); }
    syscalls:sys_enter_openat /pid == $1/ {
        @flags[args.flags] = count(); @kernel[kstack(3)] = count(); @user[ustack(3), comm] = count();
        if (args.dfd == -100) { @here = count() } else { @other = count() }
        printf("%s %d %x %s\n", comm, args.dfd, args.flags, probe); print((pid == tid, args.mode));
    }
    syscalls:sys_enter_openat, syscalls:sys_enter_close /pid == $1 && strncmp(comm, "shell", 5) != 0/ {
        @by[probe] = count(); $i = 0; while ($i < 5) { @loop[$i] = sum($i); $i++; }
    }
    begin { printf("begin\n"); @gone = 1; }
    end {
        for ($kv : @flags) { @copy[$kv.0] = $kv.1; printf("flag %d\n", $kv.0); }
        print(@flags, 3); clear(@loop); delete(@gone); printf("end %d\n", len(@by)); print(@missing["x"]); @missing["y"] = 1;
    }"#;

/// A test does both at once: the maps and lines are the same, to the last character.
#[test]
fn a_program_says_the_same_of_a_run_and_of_its_recording() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("p.bt"), PROGRAM).unwrap();
    let work = Work::start();
    let pid = work.pid();
    let events = "syscalls:sys_enter_read,syscalls:sys_exit_read,syscalls:sys_enter_close";
    let opens = "syscalls:sys_enter_openat { record(args, kstack, ustack) }";
    let record = ["record", "-v", "-p", &pid, "-o", "t", "-e", events, "-e", opens];
    let mut record = place.command(&record).stderr(Stdio::piped()).spawn().unwrap();
    let run = place
        .command(&["run", "p.bt", "-p", &pid, &pid])
        .stdout(Stdio::piped())
        .spawn();
    let mut run = run.unwrap();
    let (mut live, mut out) = begun(&mut run);
    let mut stderr = BufReader::new(record.stderr.take().unwrap());
    let mut messages = recording(&mut stderr);
    work.work();
    out.read_to_string(&mut live).unwrap();
    assert!(run.wait().unwrap().success(), "{live}");
    stderr.read_to_string(&mut messages).unwrap();
    assert!(record.wait().unwrap().success(), "{messages}");
    assert!(messages.contains("lost 0, missed 0"), "{messages}");
    let later = place.run(&["run", "p.bt", "--trace", "t", &pid]).succeeds();
    assert!(later.err.contains("Attached 8 probes\n"), "{}", later.err);
    assert!(later.out.starts_with("begin\n"), "{}", later.out);
    for word in [
        "@kernel[\n",
        "@user[\n",
        "@calls[",
        "@linear:",
        "flag ",
        "@by[tracepoint:syscalls:sys_enter_close]: ",
    ] {
        assert!(live.contains(word), "no {word} in {live}");
    }
    let (live, later) = (sorted(&live), sorted(&later.out));
    let differ = live.iter().zip(&later).find(|(live, later)| live != later);
    assert_eq!((differ, live.len()), (None, later.len()));
}

/// A recording that needs no rights to be asked.
fn recorded(place: &WorkFolder) {
    let record = [
        "record",
        "-q",
        "-o",
        "t",
        "-e",
        "syscalls:sys_enter_getppid",
        "-e",
        "syscalls:sys_enter_openat",
    ];
    let command = ["--", "sh", "-c", "cat /proc/version"];
    place
        .run(&[&record[..1], &record[2..], &command].concat())
        .succeeds();
}

#[test]
fn values_that_were_not_recorded_are_refused_with_how_to_record_them() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place);
    let refused = |program: &str, words: &[&str]| {
        place.run(&["run", "-e", program, "--trace", "t"]).fails(2, words);
        place.run(&["report", "-e", program, "t"]).fails(2, words);
    };
    let open = "syscalls:sys_enter_openat";
    let advice = |value: &str| format!("record it: kestrel record -e '{open} {{ record(args, {value}) }}'");
    for (asked, what, value) in [
        (
            "@[kstack] = count()",
            "kstack was not recorded with syscalls:sys_enter_openat",
            "kstack",
        ),
        ("@[ustack] = count()", "ustack was not recorded", "ustack"),
        ("@[uid] = count()", "uid was not recorded", "uid"),
        ("@[gid] = count()", "gid was not recorded", "gid"),
        ("print(cgroup)", "cgroup was not recorded", "cgroup"),
        (
            "print(str(args.filename))",
            "the string at args.filename was not recorded",
            "filename = str(args.filename)",
        ),
        (
            "print(buf(args.filename, 8))",
            "the memory behind args.filename was not recorded",
            "mem1 = buf(args.filename, BYTES)",
        ),
    ] {
        refused(&format!("{open} {{ {asked} }}"), &[what, &advice(value)]);
    }
    refused(
        "syscalls:sys_enter_openat { print(args.flagz) }",
        &["the field \"flagz\" cannot be had", "did you mean \"flags\"?"],
    );
    refused(
        "syscalls:sys_enter_close { @ = count() }",
        &[
            "syscalls:sys_enter_close was not recorded",
            "record it: kestrel record -e 'syscalls:sys_enter_close'",
            "the recording has ",
        ],
    );
    refused(
        "kprobe:vfs_nosuch { @ = count() }",
        &[
            "kprobe:vfs_nosuch was not recorded",
            "this kernel does not have it",
        ],
    );
    refused(
        "sched:* { @ = count() }",
        &["no event that sched:* stands for was recorded"],
    );
    // Beside an event that was recorded, a pattern may stand for nothing, as live.
    let beside = "syscalls:sys_enter_openat, kprobe:nothing_of_this_* { @ = count() }";
    let run = place.run(&["run", "-e", beside, "--trace", "t"]);
    run.fails(
        0,
        &["no event that kprobe:nothing_of_this_* stands for was recorded"],
    );
    assert!(run.out.contains("@: "), "{}", run.out);
    let kill = "syscalls:sys_enter_openat { signal(\"KILL\") }";
    place
        .run(&["run", "--unsafe", "-e", kill, "--trace", "t"])
        .fails(2, &["signal() acts on what runs, and a recording has happened"]);
    place
        .run(&["run", "-e", "begin { }", "--trace", "nowhere"])
        .fails(1, &["nowhere"]);
    std::fs::write(place.path().join("t/metadata"), "/* CTF 1.8 */ nothing").unwrap();
    place
        .run(&["run", "-e", "begin { }", "--trace", "t"])
        .fails(1, &["metadata"]);
}

#[test]
fn all_that_a_program_needs_is_one_line_to_paste() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place);
    let program =
        "tracepoint:sched:sched_switch { @[kstack] = count() } tracepoint:sched:sched_wakeup { @w = count() }
        end { print(@w); clear(@w) }";
    let line = "record all of it: kestrel record -e 'tracepoint:sched:sched_wakeup' -e 'tracepoint:sched:sched_switch { record(args, kstack) }'";
    let run = place.run(&["run", "-e", program, "--trace", "t"]);
    run.fails(2, &[line]);
    // What only follows from that is not said.
    assert!(!run.err.contains("Undefined map"), "{}", run.err);
    let switch = "tracepoint:sched:sched_switch { record(args, kstack) }";
    let pasted = [
        "record",
        "-q",
        "-o",
        "all",
        "-e",
        "tracepoint:sched:sched_wakeup",
        "-e",
        switch,
    ];
    place
        .run(&[&pasted[..], &["-a", "--", "sleep", "0.1"]].concat())
        .succeeds();
    place.run(&["run", "-e", program, "--trace", "all"]).succeeds();

    // Where the program may go without, it may not go without all: nothing would be its answer.
    let either = "config = { missing_probes = ignore } begin { printf(\"on\\n\") } tracepoint:sched:sched_switch, tracepoint:sched:none { @ = count() }";
    place.run(&["run", "-e", either, "--trace", "t"]).fails(
        2,
        &["tracepoint:sched:none was not recorded", "but not without all"],
    );
    place.run(&["run", "-e", either, "--trace", "all"]).succeeds();
}

/// The memory that an event's own addresses point to must be there with it: that another event has some does not answer.
#[test]
fn memory_is_asked_of_each_event() {
    needs_tracing!();
    let place = WorkFolder::new();
    let free = "kmem:kfree { $task = (struct task_struct *)args.ptr; @[$task->pid, $task->flags] = count() }";
    let freed = |options: &[&str]| {
        let command = ["--", "cat", "/proc/version"];
        place
            .run(&[&["record", "-q", "-o", "m"], options, &command].concat())
            .succeeds();
        place.run(&["run", "-e", free, "--trace", "m"])
    };
    let kept = "kmem:kmalloc { record(args, arg5 = (uint64)args.ptr, mem5 = buf((uint64)args.ptr, 8)) }";
    let run = freed(&["-e", kept, "-e", "kmem:kfree"]);
    run.fails(2, &["was not recorded with kmem:kfree"]);
    // Members that are far from each other are pieces of their own: a field has 1,023 bytes at most.
    let hint = run
        .err
        .lines()
        .find_map(|line| line.split_once("record it: kestrel record -e '"));
    let advised = hint.unwrap().1.strip_suffix('\'').unwrap();
    assert!(
        advised.contains("mem5 = ") && advised.contains("mem4 = "),
        "{advised}"
    );
    let run = freed(&["-e", advised]);
    assert!(run.succeeds().out.contains("@["));
    let err = &place.run(&["run", "-e", free, "--trace", "m"]).err;
    assert!(!err.contains("not recorded"), "{err}");
}

/// The record of a birth has the parent's name; the child has the name that it had last, where no record tells what it executed.
#[test]
fn children_have_their_last_names_where_executions_were_not_recorded() {
    needs_tracing!();
    let place = WorkFolder::new();
    let names = "tracepoint:syscalls:sys_enter_close { @[comm] = count() }";
    for births in [
        "sched:sched_process_fork",
        "raw_syscalls:sys_enter,sched:sched_process_fork",
    ] {
        let events = format!("syscalls:sys_enter_close,{births}");
        let script = "cat /proc/version; ls /proc/self; true";
        let record = ["record", "-q", "-o", "n", "-e", &events, "--", "sh", "-c", script];
        place.run(&record).succeeds();
        let out = place.run(&["run", "-e", names, "--trace", "n"]).succeeds().out;
        assert!(
            out.contains("@[cat]: ") && out.contains("@[ls]: "),
            "{births}: {out}"
        );
        let lines = place.run(&["print", "n"]).succeeds().out;
        assert!(lines.contains("ls-"), "{births}: {lines}");
    }
}

/// Intervals come by the recording's time, `exit` ends the program where it stands, and `report` takes a program with its own filters.
#[test]
fn time_is_that_of_the_recording() {
    needs_tracing!();
    let place = WorkFolder::new();
    let script = "cat /proc/version; sleep 0.25; cat /proc/version";
    let record = [
        "record",
        "-o",
        "t",
        "-e",
        "syscalls:sys_enter_openat",
        "--",
        "sh",
        "-c",
        script,
    ];
    place.run(&record).succeeds();
    let ticks = r#"interval:ms:100 { printf("tick %d\n", elapsed / 1000000); } end { printf("%d\n", elapsed / 250000000 > 0); }"#;
    let out = place
        .run(&["run", "-q", "-e", ticks, "--trace", "t"])
        .succeeds()
        .out;
    assert!(out.starts_with("tick 100\ntick 200\n"), "{out}");
    let exits = r#"syscalls:sys_enter_openat { @n++; printf("%d\n", @n); if (@n == 2) { exit(); } } end { printf("end\n"); }"#;
    let out = place
        .run(&["run", "-q", "-e", exits, "--trace", "t"])
        .succeeds()
        .out;
    assert_eq!(out, "1\n2\nend\n\n\n@n: 2\n");
    let count = "syscalls:sys_enter_openat { @[comm] = count() }";
    let all = place.run(&["report", "-e", count, "t"]).succeeds().out;
    assert!(all.starts_with("@[") && all.contains("@[cat]: "), "{all}");
    let late = place
        .run(&["report", "-e", count, "--comm", "cat", "--from", "0.2", "t"])
        .succeeds()
        .out;
    assert!(late.starts_with("@[cat]: ") && !late.contains("@[sh]"), "{late}");
}

/// Twenty of the programs that `cargo xtask replay` runs.
#[test]
fn random_programs_say_the_same_live_and_later() {
    needs_tracing!();
    let folder = tempfile::tempdir().unwrap();
    let kestrel = Path::new(env!("CARGO_BIN_EXE_kestrel"));
    let compared = testkit::live_and_replayed::compare(kestrel, folder.path(), 0..20, 10).unwrap();
    assert_eq!(compared.differences, []);
    assert_eq!(compared.programs, 20);
    assert!(compared.maps > 20 && compared.lines > 1000, "{compared:?}");
}

/// `comm(PID)` is answered by the names that the recording has, where programs on a kernel read its memory.
#[test]
fn other_threads_have_the_names_that_the_recording_knows() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = [
        "record",
        "-q",
        "-o",
        "t",
        "-e",
        "sched:sched_switch,syscalls:sys_enter_openat",
    ];
    let command = ["--", "sh", "-c", "cat /proc/version; sleep 0.01"];
    place.run(&[&record[..], &command].concat()).succeeds();
    let program = r#"sched:sched_switch /args.prev_pid != 0/ { @[comm(args.prev_pid) == comm] = count(); }
        syscalls:sys_enter_openat /comm(tid) == comm && comm(pid) == str("cat")/ { @cat = count(); @size = sizeof(comm(tid)); }
        end { print((comm(0), comm(99999999), comm(-1))); }"#;
    let run = place
        .run(&["run", "-q", "-e", program, "--trace", "t"])
        .succeeds();
    assert!(run.out.starts_with("(N/A, N/A, N/A)\n"), "{}", run.out);
    for there in ["@[true]: ", "@cat: ", "@size: 16"] {
        assert!(run.out.contains(there), "{there}: {}", run.out);
    }
    assert!(!run.out.contains("@[false]"), "{}", run.out);
    assert!(run.err.contains("No such process (pid=99999999)"), "{}", run.err);
}

/// At `begin` and `end` the thread is Kestrel's own; at an interval no thread is known.
#[test]
fn the_thread_of_the_programs_own_events() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place);
    let own =
        "begin { @ = pid == tid && pid > 0; printf(\"%s\\n\", comm); } end { @end = pid == tid && pid > 0 }";
    let run = place.run(&["run", "-q", "-e", own, "--trace", "t"]).succeeds();
    assert_eq!(run.out, "kestrel\n\n\n@: true\n@end: true\n");
    for (event, word) in [
        ("begin", "cpu"),
        ("interval:ms:1", "pid"),
        ("interval:ms:1", "tid"),
        ("interval:ms:1", "comm"),
        ("interval:ms:1", "cpu"),
    ] {
        let program = format!("{event} {{ print({word}) }}");
        let why = format!("{word} is known of recorded events only");
        place
            .run(&["report", "-e", &program, "t"])
            .fails(2, &["-e:1:", &why]);
    }
}

/// `kaddr()` is the address that the recording has for a symbol; of others the refusal speaks of the recording.
#[test]
fn symbols_of_the_kernel_are_those_of_the_recording() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = [
        "record",
        "-q",
        "-o",
        "t",
        "-e",
        "sched:sched_switch { record(args, kstack) }",
    ];
    place
        .run(&[&record[..], &["--", "sleep", "0.01"]].concat())
        .succeeds();
    let program = "sched:sched_switch { @[ksym(kaddr(\"__schedule\"))] = count(); }";
    let run = place.run(&["report", "-e", program, "t"]).succeeds();
    assert!(run.out.starts_with("@[__schedule]: "), "{}", run.out);
    let other = "begin { print(kaddr(\"no_symbol_of_this_recording\")) }";
    let why = "the address of no_symbol_of_this_recording is not known of this recording";
    place.run(&["report", "-e", other, "t"]).fails(2, &[why]);
}

/// Where this kernel has none of the alternative events of a script, the refusal says so instead of naming a line that records them.
#[test]
fn events_that_this_kernel_does_not_have_are_said_to_be_none() {
    needs_tracing!();
    let place = WorkFolder::new();
    recorded(&place);
    let program = "config = { missing_probes = ignore } tracepoint:sched:no_such_event, tracepoint:sched:nor_this { @ = count() }";
    let run = place.run(&["run", "-e", program, "--trace", "t"]);
    run.fails(
        2,
        &["no_such_event was not recorded", "this kernel has none of them"],
    );
    assert!(!run.err.contains("record it"), "{}", run.err);
}

/// A recording of the tracepoints of all calls alone, of this kernel: arguments have their names, and those of which no memory was recorded their addresses.
#[test]
fn arguments_of_calls_are_shown_without_the_recorders_list_of_calls() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = [
        "record",
        "-q",
        "-o",
        "t",
        "-e",
        "raw_syscalls:sys_enter,raw_syscalls:sys_exit",
    ];
    place
        .run(&[&record[..], &["--", "cat", "/dev/null"]].concat())
        .succeeds();
    let lines = place
        .run(&["print", "--syscalls=openat,close", "t"])
        .succeeds()
        .out;
    assert!(lines.contains("close(fd: 3) = 0"), "{lines}");
    assert!(lines.contains("openat(dfd: AT_FDCWD, filename: 0x"), "{lines}");
}

/// Refusals name what the program says, not the helper or the structure behind it; `username` is of a user that was recorded.
#[test]
fn built_ins_are_refused_by_the_name_that_was_written() {
    needs_tracing!();
    let place = WorkFolder::new();
    let event = "syscalls:sys_enter_openat";
    let record = ["record", "-q", "-o", "t", "-e", event, "--", "cat", "/dev/null"];
    place.run(&record).succeeds();
    for (word, why) in [
        ("nsecs(boot)", "nsecs(boot) is in no recording"),
        (
            "curtask->real_parent->tgid",
            "curtask->real_parent->tgid was not recorded with",
        ),
        ("ppid", "ppid was not recorded with"),
        ("username", "username was not recorded with"),
        (
            "percpu_kaddr(\"runqueues\")",
            "percpu_kaddr() finds its address in the kernel's memory",
        ),
    ] {
        let program = format!("{event} {{ print({word}) }}");
        place.run(&["report", "-e", &program, "t"]).fails(2, &[why]);
    }
    let program = format!("{event} {{ record(args, uid) }}");
    let record = [
        "record",
        "-q",
        "-o",
        "u",
        "-e",
        &program,
        "--",
        "cat",
        "/dev/null",
    ];
    place.run(&record).succeeds();
    let print = format!("{event} {{ @[username, uid] = count() }}");
    let run = place.run(&["report", "-e", &print, "u"]).succeeds();
    assert!(run.out.starts_with("@[root, 0]: "), "{}", run.out);
}
