//! Programs about system calls over recordings of all of them (`record --syscalls`): the same as live, and what such a recording does not hold.

use crate::command::{WorkFolder, needs_tracing};
use crate::replay::{Work, begun, sorted};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

#[test]
fn recorded_calls_have_the_pointed_to_arguments_that_live_ones_have() {
    needs_tracing!();
    let folder = tempfile::tempdir().unwrap();
    let kestrel = Path::new(env!("CARGO_BIN_EXE_kestrel"));
    let lines = testkit::snoops::compare(kestrel, folder.path()).unwrap();
    assert_eq!(lines.live, lines.later);
    for (word, least) in testkit::snoops::MIN {
        let count = lines.live.iter().filter(|line| line.starts_with(word)).count();
        assert!(count >= *least, "{count} of {word}: {:#?}", lines.live);
    }
}

const PROGRAM: &str = r#"
    tracepoint:syscalls:sys_enter_* { @entered[probe] = count(); }
    tracepoint:syscalls:sys_exit_* /args.ret < 0/ { @failed[probe, args.ret] = count(); }
    raw_syscalls:sys_enter { @numbers[args.id, args.args[0] == 0] = count(); }
    raw_syscalls:sys_exit { @results[args.id] = stats(args.ret); }
    syscalls:sys_enter_read { @n[args.__syscall_nr] = count(); @read[comm, args.fd] = sum(args.count); @at[tid] = nsecs; }
    syscalls:sys_exit_read /@at[tid]/ { @took[comm] = count(); @bytes = hist(args.ret); delete(@at, tid); }
    syscalls:sys_enter_dup2, syscalls:sys_enter_fcntl { @descriptors[probe, args.__syscall_nr] = count(); }
    begin { printf("begin\n"); }"#;

/// Globs and fields of single calls, and the tracepoints of all: the maps are the same, to the last number.
#[test]
fn calls_are_counted_as_their_own_tracepoints_count_them() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("p.bt"), PROGRAM).unwrap();
    let work = Work::start();
    let pid = work.pid();
    let record = ["record", "-v", "-p", &pid, "-o", "t", "--syscalls"];
    let mut record = place.command(&record).stderr(Stdio::piped()).spawn().unwrap();
    let run = place
        .command(&["run", "-q", "p.bt", "-p", &pid])
        .stdout(Stdio::piped())
        .spawn();
    let mut run = run.unwrap();
    let (mut live, mut out) = begun(&mut run);
    let mut printed = BufReader::new(record.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("recording into ") {
        line.clear();
        assert!(printed.read_line(&mut line).unwrap() > 0, "no recording begins");
    }
    work.work();
    out.read_to_string(&mut live).unwrap();
    assert!(run.wait().unwrap().success(), "{live}");
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert!(record.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("lost 0, missed 0"), "{rest}");
    let later = place.run(&["run", "-q", "p.bt", "--trace", "t"]).succeeds();
    assert_eq!(later.err, "");
    for word in [
        "@entered[tracepoint:syscalls:sys_enter_openat]: ",
        "@failed[",
        "@numbers[257, ",
    ] {
        assert!(live.contains(word), "no {word} in {live}");
    }
    assert_eq!(sorted(&live), sorted(&later.out));
}

#[test]
fn questions_about_unrecorded_calls_are_refused_by_name() {
    needs_tracing!();
    let place = WorkFolder::new();
    let command = ["--", "cat", "/proc/version"];
    let record = |options: &[&str]| {
        place
            .run(&[&["record", "-q", "-o", "t"], options, &command].concat())
            .succeeds();
    };
    record(&["--syscalls=openat,write"]);
    let asked = |program: &str| place.run(&["report", "-e", program, "t"]);
    let opened = asked("syscalls:sys_enter_openat { @[str(args.filename)] = count() }").succeeds();
    assert!(opened.out.contains("@[/proc/version]: 1\n"), "{}", opened.out);
    let times = ["report", "--latency", "syscalls:*", "t"];
    place
        .run(&times)
        .fails(2, &["report --syscalls", "--latency 'raw_syscalls:*' --by id"]);
    place
        .run(&["report", "--latency", "raw_syscalls:*", "--by", "id", "t"])
        .succeeds();
    asked("syscalls:sys_enter_getppid { @ = count() }").fails(
        2,
        &[
            "syscalls:sys_enter_getppid was not recorded",
            "record it: kestrel record --syscalls=getppid",
        ],
    );
    asked("syscalls:sys_enter_openaat { @ = count() }").fails(
        2,
        &[
            "syscalls:sys_enter_openaat was not recorded",
            "syscalls:sys_enter_openat",
        ],
    );
    asked("syscalls:sys_enter_stat { @ = count() }")
        .fails(2, &["the kernel's name for it: syscalls:sys_enter_newstat"]);
    asked("syscalls:sys_enter_write { @[args.filename] = count() }")
        .fails(2, &["syscalls:sys_enter_write has none"]);
    // Of a buffer the begin is there, of what no argument points to nothing: both are counted.
    let reads = r#"syscalls:sys_enter_write /args.count > 40/ { printf("<%s>\n", str(args.buf, args.count)); print(*(uint64 *)uptr((uint64)args.buf + 4096)); }"#;
    let read = asked(reads).succeeds();
    let text = std::fs::read_to_string("/proc/version").unwrap();
    assert!(
        read.out.contains(&format!("<{}>\n0\n", &text[..32])),
        "{}",
        read.out
    );
    let line = "1 read found no recorded memory (1 at tracepoint:syscalls:sys_enter_write), 1 read found only the beginning of what was asked for";
    assert!(read.err.contains(line), "{}", read.err);
    // A class of all calls beside those of --syscalls would count each call twice.
    for event in ["t:raw_syscalls:sys_enter", "raw_*:sys_exit"] {
        place
            .run(&["record", "-q", "-o", "t", "--syscalls", "-e", event, "--", "true"])
            .fails(2, &["beside --syscalls: these are the calls that it shows"]);
    }
    // Without memory it is refused by name.
    record(&["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"]);
    let count = asked("syscalls:sys_enter_openat { @ = count() }").succeeds();
    assert!(count.out.starts_with("@: "), "{}", count.out);
    assert!(
        count.err.contains("those of 32-bit programs are among them"),
        "{}",
        count.err
    );
    asked("syscalls:sys_enter_openat { @[str(args.filename)] = count() }").fails(
        2,
        &[
            "the string at args.filename was not recorded with syscalls:sys_enter_openat",
            "filename = str(args.filename)",
        ],
    );
    // Of another kernel the names of calls are known by their numbers, on another architecture none are.
    let metadata = place.path().join("t/metadata");
    let here = std::fs::read_to_string(&metadata).unwrap();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let another = here.replace(release.trim(), "1.2.3");
    assert_ne!(here, another);
    std::fs::write(&metadata, &another).unwrap();
    let statted = asked("syscalls:sys_enter_newfstat* { @[probe] = count() }").succeeds();
    assert!(
        statted.out.contains("syscalls:sys_enter_newfstat"),
        "{}",
        statted.out
    );
    asked("syscalls:sys_enter_fstat { @ = count() }")
        .fails(2, &["the kernel's name for it: syscalls:sys_enter_newfstat"]);
    let descriptors = "syscalls:sys_enter_read { @[args.fd] = count() }";
    asked(descriptors).fails(2, &["names of arguments are those of the recorded kernel"]);
    let machine = std::env::consts::ARCH;
    let foreign = another.replace(&format!("machine = \"{machine}\""), "machine = \"mips\"");
    assert_ne!(foreign, another);
    std::fs::write(&metadata, &foreign).unwrap();
    for program in [
        "syscalls:sys_enter_read { @ = count() }",
        "syscalls:* { @ = count() }",
    ] {
        asked(program).fails(2, &["which calls these are on mips is not known here"]);
    }
    asked("raw_syscalls:sys_enter { @ = count() }").succeeds();
    // An argument that a handler of its own has kept is found by its name, or by its number.
    record(&[
        "-e",
        "raw_syscalls:sys_enter /args.id == 257/ { record(args, filename = str(args.args[1])) }",
    ]);
    let opened = asked("syscalls:sys_enter_openat { @[str(args.filename)] = count() }").succeeds();
    assert!(opened.out.contains("@[/proc/version]: 1\n"), "{}", opened.out);
    record(&[
        "-e",
        "syscalls:sys_enter_openat { record(args, text1 = str(args.filename)) }",
        "-e",
        "syscalls:sys_exit_openat",
    ]);
    let kept = "syscalls:sys_enter_openat { @f[tid] = args.filename } syscalls:sys_exit_openat { @[str(@f[tid]), args.ret > 0] = count(); delete(@f, tid) }";
    let opened = asked(kept).succeeds();
    assert!(
        opened.out.contains("@[/proc/version, true]: 1\n"),
        "{}",
        opened.out
    );
    // A warning names a text that was recorded without its address: `str()` cannot find it.
    record(&[
        "-e",
        "syscalls:sys_enter_openat { record(text1 = str(args.filename)) }",
        "-e",
        "syscalls:sys_enter_read { record(args, mem1 = buf(args.buf, 8, 8)) }",
    ]);
    let asked_for = "text1 of syscalls:sys_enter_openat is not read as memory: the argument 1, which says where it lay, was not recorded with it";
    let read = asked("syscalls:sys_enter_read { @[str(args.buf)] = count() }").succeeds();
    assert!(read.err.contains(asked_for), "{}", read.err);
    let unread = asked("syscalls:sys_enter_read { @[args.buf] = count() }").succeeds();
    assert!(!unread.err.contains("is not read"), "{}", unread.err);
}

#[test]
fn threads_have_the_names_of_the_time() {
    needs_tracing!();
    let place = WorkFolder::new();
    // The name of a script is its own until another program is executed, and a child has its parent's.
    let script = place.path().join("first-name");
    std::fs::write(
        &script,
        "#!/bin/sh\n(cat /proc/filesystems; true)\nexec cat /proc/uptime\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    place
        .run(&[
            "record",
            "-q",
            "--syscalls",
            "-o",
            "t",
            "--",
            script.to_str().unwrap(),
        ])
        .succeeds();
    let program = r#"syscalls:sys_enter_openat /str(args.filename) == "/proc/uptime"/ { printf("%s opens\n", comm) } syscalls:sys_enter_execve { printf("%s executes %s\n", comm, str(args.filename)) }"#;
    let printed = place.run(&["report", "-e", program, "t"]).succeeds();
    assert!(printed.out.contains("cat opens\n"), "{}", printed.out);
    assert!(
        printed.out.matches("first-name executes ").count() >= 2,
        "{}",
        printed.out
    );
    let lines = place.run(&["print", "t"]).succeeds();
    assert!(
        lines
            .out
            .lines()
            .any(|line| line.contains("first-name/") && line.contains("/etc/ld.so.cache")),
        "{}",
        lines.out
    );
}
