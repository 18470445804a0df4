//! What happens at single instructions and at returns: registers, post- and fault-handlers, values of the entry, returns that were missed, jprobes.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::catalog::Catalog;
use kestrel::code::{Code, Function};
use kestrel::kernel::Host;
use std::collections::BTreeMap;
use std::fs;
use vm_tests::bare::program;
use vm_tests::kestrel;
use vm_tests::recording::{Record, Recorder, record_command};

/// How many instructions are chosen at random, where there is time for more.
const MANY: &str = "KESTREL_INSTRUCTIONS";
/// Reads of one byte that the workload makes.
const READS: usize = 20;
/// Bad calls, and good ones.
const CALLS: usize = 5;

/// What one instruction does to the registers, as far as this test knows: moves between registers and of numbers, and sums.
fn applied(text: &str, before: &Record) -> Option<(String, u64)> {
    let (mnemonic, operands) = text.split_once(' ')?;
    let has = |name: &str| before.fields.contains_key(name);
    let register = |name: &str| {
        let name = name.strip_prefix("%r")?;
        let known = has(name) || has(&format!("r{name}"));
        let name = if has(name) {
            name.to_owned()
        } else {
            format!("r{name}")
        };
        known.then_some(name)
    };
    let (from, to) = operands.rsplit_once(',')?;
    let to = register(to)?;
    let old = before.number(&to) as u64;
    let value = match from.strip_prefix('$') {
        Some(number) => i64::from_str_radix(number.strip_prefix("0x")?, 16).ok()? as u64,
        None => before.number(&register(from)?) as u64,
    };
    let new = match mnemonic {
        "mov" => value,
        "add" => old.wrapping_add(value),
        "sub" => old.wrapping_sub(value),
        _ => return None,
    };
    Some((to, new))
}

/// Numbers that look random and are the same every time.
fn shuffled<T>(mut all: Vec<T>) -> Vec<T> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..all.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        all.swap(last, (state >> 33) as usize % (last + 1));
    }
    all
}

/// Instructions of functions that a read calls, each with its place and text.
fn instructions(code: &Code<'_>) -> Vec<(Function, u64, String)> {
    let mut all = Vec::new();
    for name in [
        "ksys_read",
        "vfs_read",
        "rw_verify_area",
        "read_zero",
        "read_iter_zero",
        "fdget_pos",
        "filldir64",
        "ksys_write",
        "vfs_write",
    ] {
        let Ok(function) = code.function(None, name) else {
            continue;
        };
        for one in &function.instructions {
            if one.probeable.is_ok() && code.following(one.address).is_ok() {
                all.push((function.clone(), one.offset, one.text.clone()));
            }
        }
    }
    assert!(all.len() > 50, "functions of the workload are known");
    shuffled(all)
}

#[test]
fn what_comes_before_comes_after() {
    let catalog = Catalog::new(Host::default());
    let code = Code::new(&catalog).unwrap();
    let many = std::env::var(MANY)
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12);
    let chosen: Vec<_> = instructions(&code).into_iter().take(many).collect();
    let (mut reached, mut computed) = (0, 0);
    for some in chosen.chunks(6) {
        let mut options = Vec::new();
        for (function, offset, _) in some {
            let place = format!("kprobe:{}+{offset:#x}", function.symbol);
            options.extend(["-e".to_owned(), format!("{place} {{ record(regs) }}")]);
            options.extend(["-e".to_owned(), format!("{place}:post {{ record(regs) }}")]);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let (records, counts) = record_command(&options, &["calls", "read", &READS.to_string()]);
        assert_eq!(counts.lost, 0);
        for (function, offset, text) in some {
            let place = format!("kprobe:{}+{offset:#x}", function.symbol);
            let of = |name: &str| records.iter().filter(|r| r.event == name).collect::<Vec<_>>();
            let (pre, post) = (of(&place), of(&format!("{place}:post")));
            assert_eq!(
                pre.len(),
                post.len(),
                "{place}: {text} (skipped: {})",
                counts.skipped
            );
            reached += usize::from(!pre.is_empty());
            for (before, after) in pre.iter().zip(&post) {
                assert_eq!(before.tid, after.tid);
                let Some((register, value)) = applied(text, before) else {
                    continue;
                };
                assert_eq!(
                    after.number(&register) as u64,
                    value,
                    "{place}: {text}: {register}"
                );
                computed += 1;
            }
        }
    }
    assert!(reached >= 2, "the workload reaches some of them: {reached}");
    assert!(many < 100 || computed > 0, "none of them could be computed");
    assert_eq!(list_of_kprobes(), "", "nothing stays");
}

/// What the kernel says of its probes; those of processes that end take a moment.
fn list_of_kprobes() -> String {
    let debugfs = Host::default().mount_debugfs().unwrap();
    for _ in 0..100 {
        let list = fs::read_to_string(debugfs.join("kprobes/list")).unwrap();
        if list.is_empty() {
            return list;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::read_to_string(debugfs.join("kprobes/list")).unwrap()
}

/// Room that the program has for answers; what it has not.
const GOOD: u64 = 0x40_8000;
const BAD: u64 = 0x1000;

#[test]
fn faults_are_seen_once_for_each_bad_call() {
    // getdents64, getdents, uname, gettimeofday; the first two read the directory that is the standard input.
    let calls: &[(u32, fn(u64) -> [u64; 3])] = &[
        (217, |to| [0, to, 4096]),
        (78, |to| [0, to, 4096]),
        (63, |to| [to, 0, 0]),
    ];
    let mut functions = Vec::new();
    for (number, arguments) in calls {
        let rewind = (8, [0, 0, 0]);
        let of = |to: u64| {
            let one = [rewind, (*number, arguments(to))];
            one.into_iter().cycle().take(2 * CALLS).collect::<Vec<_>>()
        };
        let bad = program(&format!("bad-{number}"), &of(BAD));
        let good = program(&format!("good-{number}"), &of(GOOD));
        let run = |path: &str, options: &[&str]| {
            record_command(options, &["sh", "-c", &format!("exec {path} < /proc/self")])
        };
        // Where it faults, somebody else says.
        let seen = "kprobe:fixup_exception { record(ip = ((struct pt_regs *)arg0)->ip, address = arg3) }";
        let (records, _) = run(&bad, &["-e", seen]);
        let ours: Vec<&Record> = records.iter().filter(|r| in_bad(r.number("address"))).collect();
        assert_eq!(ours.len(), CALLS, "system call {number}");
        let ip = ours[0].number("ip") as u64;
        let place = named(ip);
        functions.push(place.clone());
        let fault = format!("kprobe:{place}:fault {{ record(args, regs) }}");
        let (records, counts) = run(&bad, &["-e", &fault]);
        assert!(counts.explain(records.len(), CALLS), "{place}: {counts:?}");
        for record in &records {
            assert!(in_bad(address(record, "address")), "{record:?}");
            assert_eq!(record.text("trap"), "PF");
            assert!(record.text("ip").starts_with(&place), "{place}: {record:?}");
        }
        let (records, _) = run(&good, &["-e", &fault]);
        assert_eq!(records.len(), 0, "{place}: good calls fault nowhere");
        // With a probe on the same instruction the fault is still its own, and there is no post for it.
        if number == &217 {
            assert!(place.starts_with("filldir64+"), "{place}");
            let (pre, post) = (format!("kprobe:{place}"), format!("kprobe:{place}:post"));
            let all = ["-e", pre.as_str(), "-e", &post, "-e", &fault];
            let (records, counts) = run(&bad, &all);
            let count = |what: &str| records.iter().filter(|r| r.event.ends_with(what)).count();
            assert!(counts.explain(count(":fault"), CALLS), "{counts:?}");
            assert_eq!(count(":post"), 0);
            assert_eq!(count(&place), CALLS);
            let (records, _) = run(&good, &all);
            let count = |what: &str| records.iter().filter(|r| r.event.ends_with(what)).count();
            assert_eq!(count(":fault"), 0);
            assert!(
                count(":post") > 0 && count(":post") == count(&place),
                "{}",
                count(":post")
            );
        }
    }
    functions.sort();
    functions.dedup();
    assert_eq!(functions.len(), calls.len(), "{functions:?}");
}

fn in_bad(address: i64) -> bool {
    (BAD..BAD + 4096).contains(&(address as u64))
}

fn address(record: &Record, field: &str) -> i64 {
    i64::from_str_radix(record.text(field).trim_start_matches("0x"), 16).unwrap()
}

fn named(address: u64) -> String {
    let catalog = Catalog::new(Host::default());
    let function = Code::new(&catalog).unwrap().around(address).unwrap();
    format!("{}+{:#x}", function.symbol, address - function.address)
}

#[test]
fn returns_know_their_entries() {
    let event = "kretprobe:vfs_read { record(entry.arg2, entry.args.count, retval, entry.reg(\"dx\"), took = nsecs - entry.nsecs) }";
    let (records, counts) = record_command(&["-e", event], &["calls", "read", "100"]);
    let ours = records.iter().filter(|r| r.number("entry_arg2") == 1).count();
    assert!(counts.explain(ours, 100), "{ours} {counts:?}");
    for record in &records {
        assert_eq!(record.number("entry_count"), record.number("entry_arg2"));
        assert_eq!(record.number("entry_dx"), record.number("entry_arg2"));
        assert!(record.number("retval") <= record.number("entry_arg2"));
        assert!(record.number("took") > 0);
    }
    // Each of its calls goes through the next: they nest, in many processes at once.
    let nested = "kretprobe:ksys_*read* { record(entry.arg2, retval) }";
    let (records, _) = record_command(&["-e", nested], &["calls", "read", "50"]);
    let of = |name: &str| {
        records
            .iter()
            .filter(|r| r.event == name && r.number("entry_arg2") == 1)
            .count()
    };
    assert!(of("kretprobe:ksys_read") > 0);
    let said = kestrel(&[
        "trace",
        "-e",
        "fexit:vfs_read { record(entry.nsecs) }",
        "--",
        "true",
    ])
    .err;
    assert!(said.contains("kretprobe:vfs_read keeps any value"), "{said}");
}

#[test]
fn returns_that_were_missed_are_told() {
    let path = "/tmp/locked";
    let held = fs::File::create(path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let recorder = Recorder::start("missed", &["-e", "kretprobe:__x64_sys_flock:maxactive=1"]);
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let file = fs::File::open(path).unwrap();
                rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
            })
        })
        .collect();
    // All of them sleep in the call when the lock is let go.
    while fs::read_to_string("/proc/locks").unwrap().matches("->").count() < 8 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(held);
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    let (records, counts, said) = recorder.stop();
    assert_eq!(records.len() as u64 + counts.skipped, 8, "{said}");
    assert!(
        said.contains("returns of kretprobe:__x64_sys_flock were missed"),
        "{said}"
    );
    assert!(!own_events().contains("kestrel/"), "{}", own_events());
}

fn own_events() -> String {
    fs::read_to_string(format!("{}/kprobe_events", vm_tests::TRACEFS)).unwrap()
}

#[test]
fn what_a_killed_run_left_is_swept_and_others_stay() {
    use std::io::Write;
    let file = format!("{}/kprobe_events", vm_tests::TRACEFS);
    let define = |line: &str| {
        let mut events = fs::OpenOptions::new().append(true).open(&file).unwrap();
        events.write_all(line.as_bytes()).unwrap();
    };
    define("p:theirs/one vfs_read\n");
    let event = "kretprobe:__x64_sys_flock:maxactive=3";
    let mut recorder = Recorder::start("killed", &["-e", event]);
    assert!(own_events().contains("kestrel/p"), "{}", own_events());
    recorder.kill();
    let _ = recorder.wait();
    fs::write(
        "/tmp/stays.kst",
        format!("table main {{ {event} {{ record(retval) }} }}"),
    )
    .unwrap();
    kestrel(&["start", "stays", "/tmp/stays.kst"]).success();
    let _ = kestrel(&[
        "record",
        "-o",
        "/tmp/swept",
        "-e",
        "kprobe:vfs_read",
        "--",
        "true",
    ]);
    let left = own_events();
    assert_eq!(left.matches("kestrel/p").count(), 1, "the session's own: {left}");
    kestrel(&["stop", "stays"]).success();
    let left = own_events();
    assert!(
        !left.contains("kestrel/") && left.contains("theirs/one"),
        "{left}"
    );
    define("-:theirs/one\n");
}

#[test]
fn jprobes_tell_what_the_caller_gave() {
    // Six parameters, two of them pointers to structures; what they were, the caller knows.
    let copy = |kind: &str| {
        format!(
            "{kind}:vfs_copy_file_range {{ record(args.file_in, args.pos_in, args.file_out, args.pos_out, args.len, args.flags, size = args.file_in->f_inode->i_size) }}"
        )
    };
    let (jprobe, fentry) = (copy("jprobe"), copy("fentry"));
    fs::write("/tmp/copied", [b'x'; 100]).unwrap();
    let recorder = Recorder::start("jprobe", &["-e", "jprobe:vfs_copy_file_range", "-e", &fentry]);
    let (from, to) = (
        fs::File::open("/tmp/copied").unwrap(),
        fs::File::create("/tmp/copy").unwrap(),
    );
    let (mut at, mut behind) = (3, 5);
    let _ = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut behind), 17);
    let (records, counts, said) = recorder.stop();
    assert!(counts.explain(records.len(), 2), "{said}");
    for record in &records {
        let number = |name: &str| record.number(name);
        assert_eq!(
            (
                number("pos_in"),
                number("pos_out"),
                number("len"),
                number("flags")
            ),
            (3, 5, 17, 0)
        );
    }
    if let [one, other] = records.as_slice() {
        assert_eq!(one.text("file_in"), other.text("file_in"));
        assert_eq!(one.text("file_out"), other.text("file_out"));
        assert_ne!(one.text("file_in"), one.text("file_out"));
    }
    let recorder = Recorder::start("walks", &["-e", &jprobe]);
    let (mut at, mut behind) = (3, 5);
    let _ = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut behind), 17);
    let (records, _, said) = recorder.stop();
    assert_eq!(
        records.iter().map(|r| r.number("size")).collect::<Vec<_>>(),
        [100],
        "{said}"
    );
    let event =
        "jprobe:do_sys_openat2 { record(args.dfd, name = str(args.filename), flags = args.how->flags) }";
    let other =
        "fentry:do_sys_openat2 { record(args.dfd, name = str(args.filename), flags = args.how->flags) }";
    let (records, _) = record_command(&["-e", event, "-e", other], &["cat", "/proc/uptime"]);
    let mut by_kind: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for record in &records {
        let kind = record.event.split(':').next().unwrap();
        let line = format!("{} {}", record.text("name"), record.number("flags"));
        by_kind.entry(kind).or_default().push(line);
    }
    assert_eq!(by_kind.get("jprobe"), by_kind.get("fentry"));
    assert!(
        by_kind["jprobe"]
            .iter()
            .any(|line| line.starts_with("/proc/uptime ")),
        "{by_kind:?}"
    );
    let run = kestrel(&["trace", "-e", event, "--", "cat", "/proc/uptime"]);
    assert!(
        run.out
            .contains("do_sys_openat2(dfd=AT_FDCWD, name=\"/proc/uptime\", flags="),
        "{}",
        run.out
    );
    let twice = kestrel(&["trace", "-e", "j:vfs_read", "-e", "j:vfs_read", "--", "true"]);
    assert_ne!(twice.code, Some(0), "{}", twice.err);
    assert!(twice.err.contains("one jprobe at a time"), "{}", twice.err);
}
