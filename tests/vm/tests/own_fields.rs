//! Handlers that ask for a system call's own fields, in slots of a session that sees all calls as one set: loaded, switched to under load, and
//! what they see after a buffer was resized.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::kernel::Host;
use kestrel::session::store::Store;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_tests::recording::{Record, records};
use vm_tests::{getppid_calls, kestrel, table_file};

const MARKED: &str = "/tmp/a-file-of-this-test";

/// Calls with a descriptor.
const CALLS: [&str; 33] = [
    "read",
    "write",
    "close",
    "lseek",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fchdir",
    "fchmod",
    "fchown",
    "flock",
    "fcntl",
    "ioctl",
    "getdents64",
    "fsetxattr",
    "fgetxattr",
    "flistxattr",
    "fremovexattr",
    "fallocate",
    "preadv",
    "pwritev",
    "syncfs",
    "fstatfs",
    "connect",
    "bind",
    "listen",
    "accept",
    "sendto",
    "recvfrom",
];

/// A thread's load: rounds of open, close and getppid until `stop`.
struct Load {
    stop: AtomicBool,
    rounds: AtomicU64,
    /// Rounds at the last step of the test.
    step: AtomicU64,
}

impl Load {
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            drop(File::open(MARKED).unwrap());
            getppid_calls(1);
            self.rounds.fetch_add(1, Ordering::Relaxed);
            // The buffer is to hold all of it, however long a step takes: twice as slow after every 500 rounds of one.
            let since = self.rounds.load(Ordering::Relaxed) - self.step.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(200 << (since / 500).min(10)));
        }
    }

    /// Waits for 100 more rounds.
    fn go_on(&self) {
        let begin = self.rounds.load(Ordering::Relaxed);
        self.step.store(begin, Ordering::Relaxed);
        let until = begin + 100;
        while self.rounds.load(Ordering::Relaxed) < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Stops the load when it is dropped, so that the thread's scope ends also after a panic.
struct Ending<'l>(&'l Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

fn timed(words: &[&str]) {
    let begun = Instant::now();
    let run = kestrel(words);
    println!("{words:?}: {:?}\n{}{}", begun.elapsed(), run.out, run.err);
    assert_eq!(run.code, Some(0), "{words:?}: {}", run.err);
}

#[test]
fn a_calls_own_fields_come_and_go_under_load() {
    File::create(MARKED).unwrap();
    let mine = std::process::id();
    // The thread that makes the load makes no other of these calls.
    let base = table_file(
        "base",
        "buffer kept { size = 8M }\ntable base { syscalls:* /comm == \"load\"/ { record() } }\n",
    );
    let own = table_file(
        "own",
        &format!(
            "table own {{
  syscalls:sys_enter_close /comm == \"load\" && pid == {mine}/ {{ record(n = args.fd) }}
  syscalls:sys_enter_getppid /comm == \"load\" && pid == {mine}/ {{ @asked = count() }}
  syscalls:sys_enter_openat /comm == \"load\" && pid == {mine}/ {{ record(path = str(args.filename), dfd = args.dfd) }}
}}
"
        ),
    );
    let of_first = |name: &str, count: usize| {
        let calls = CALLS.iter().take(count).enumerate();
        let handlers: String = calls
            .map(|(id, call)| format!("syscalls:sys_enter_{call} {{ record(id = {id}, fd = args.fd) }}\n"))
            .collect();
        table_file(name, &format!("table {name} {{\n{handlers}}}\n"))
    };
    let (some, many) = (of_first("some", 8), of_first("many", CALLS.len()));
    let text = table_file(
        "text",
        "table text { syscalls:sys_enter_fgetxattr { record(args.nothing) } }",
    );
    timed(&["start", "fields", &base]);
    let run = kestrel(&["table", "load", &many]);
    println!("{}", run.err);
    assert_ne!(run.code, Some(0));
    assert!(run.err.contains("33 different handlers"), "{}", run.err);
    // The message is about the event that was named, not about the set of all of them.
    let run = kestrel(&["table", "load", &text]);
    assert_ne!(run.code, Some(0));
    assert!(
        run.err
            .contains("syscalls:sys_enter_fgetxattr has no field \"nothing\""),
        "{}",
        run.err
    );
    // Numbers are only taken for events that have a handler: eight bodies for all calls would be too many.
    timed(&["table", "load", &some]);
    timed(&["table", "unload", "some"]);
    let load = Load {
        stop: AtomicBool::new(false),
        rounds: AtomicU64::new(0),
        step: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("load".to_owned())
            .spawn_scoped(scope, || load.run())
            .unwrap();
        let ending = Ending(&load);
        load.go_on();
        timed(&["table", "load", &own]);
        load.go_on();
        timed(&["table", "use", "own"]);
        load.go_on();
        timed(&["buffer", "resize", "kept", "16M"]);
        load.go_on();
        timed(&["table", "use", "base"]);
        load.go_on();
        timed(&["table", "use", "own"]);
        load.go_on();
        timed(&["table", "use", "base"]);
        timed(&["table", "unload", "own"]);
        load.go_on();
        drop(ending);
    });
    let rounds = load.rounds.into_inner();
    let session = Store::open(&Host::default()).unwrap().session(None).unwrap();
    let missed = session.missed().unwrap();
    let asked = session.map_snapshots().unwrap();
    println!("{asked:?}");
    timed(&["buffer", "dump", "-o", "/tmp/fields.trace", "--buffer", "kept"]);
    timed(&["stop", "fields"]);
    let records = records("/tmp/fields.trace");
    let of = |event: &str| records.iter().filter(|r| r.event == event).collect::<Vec<_>>();
    let closed = of("syscalls:sys_enter_close");
    let (with_own_fields, with_set_fields): (Vec<&Record>, Vec<&Record>) =
        closed.iter().copied().partition(|r| r.fields.contains_key("n"));
    let asked: i128 = asked
        .iter()
        .flat_map(|map| map.rows.iter().map(|row| row.weight(&map.ty)))
        .sum();
    let asked = u64::try_from(asked).unwrap();
    let answered = of("syscalls:sys_enter_getppid").len() as u64;
    println!(
        "{rounds} rounds: {} by `own`, {} by `base`; {asked} counted, {answered} recorded; {missed} missed",
        with_own_fields.len(),
        with_set_fields.len()
    );
    let enough = |seen: u64| assert!(seen + missed >= 200, "{seen}, {missed} missed");
    enough(with_own_fields.len() as u64);
    enough(with_set_fields.len() as u64);
    assert!(
        with_own_fields
            .iter()
            .all(|record| record.fields["n"].as_u64().is_some_and(|fd| fd > 2))
    );
    let opened = of("syscalls:sys_enter_openat");
    let paths: Vec<&Record> = opened
        .iter()
        .copied()
        .filter(|r| r.fields.contains_key("path"))
        .collect();
    enough(paths.len() as u64);
    assert!(
        paths
            .iter()
            .all(|record| record.fields["path"].as_str() == Some(MARKED)
                && record.fields["dfd"].as_i64() == Some(-100))
    );
    for kept in [closed.len() as u64, opened.len() as u64, asked + answered] {
        assert!(kept <= rounds, "{kept} of {rounds}");
        assert!(kept + missed >= rounds, "{kept} and {missed} missed of {rounds}");
    }
    enough(asked);
}
