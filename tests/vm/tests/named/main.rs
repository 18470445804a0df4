//! Named probes: they persist, are switched one by one and all together, count exactly, and leave nothing behind.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

mod lines;
mod modules;

use kestrel::Error;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::session::named::{ProbeRequest, SESSION};
use kestrel::session::store::Store;
use kestrel_kernel::bpf::{link_ids, map_ids, program_ids};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vm_tests::named::{add, hit, listed, number, probe};
use vm_tests::recording::records;
use vm_tests::{getppid_calls, kestrel, until};

/// A function of the kernel that only these tests have called.
const CALLED: &str = "__x64_sys_getppid";
const TRACEFS: &str = "/sys/kernel/tracing";
const LIST: &str = "/sys/kernel/debug/kprobes/list";
const DEFINITIONS: &str = "/sys/kernel/tracing/kprobe_events";
const ENABLED: &str = "/sys/kernel/debug/kprobes/enabled";

fn held() -> [BTreeSet<u32>; 3] {
    let set = |ids: Vec<u32>| ids.into_iter().collect();
    [
        set(program_ids().unwrap()),
        set(map_ids().unwrap()),
        set(link_ids().unwrap()),
    ]
}

/// Waits until the kernel holds nothing that it did not hold before, and has no kprobe: it detaches in its own time.
fn wait_until_gone(before: &[BTreeSet<u32>; 3]) {
    let deadline = Instant::now() + Duration::from_secs(110);
    loop {
        let now = held();
        let left: Vec<usize> = now
            .iter()
            .zip(before)
            .map(|(now, before)| now.difference(before).count())
            .collect();
        let probes = fs::read_to_string(LIST).unwrap_or_default();
        if left == [0, 0, 0] && probes.is_empty() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "programs, maps, links left: {left:?}; probes:\n{probes}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until those of other tests have gone, which come off in the background.
fn no_probes() {
    until("other tests' probes to go", || {
        fs::read_to_string(LIST).unwrap_or_default().is_empty()
    });
}

/// A line for the kernel; without a shell, which would call what is counted.
fn define(line: &str) {
    let mut definitions = fs::OpenOptions::new().append(true).open(DEFINITIONS).unwrap();
    definitions.write_all(line.as_bytes()).unwrap();
}

#[test]
fn named_probes_persist_and_are_switched() {
    no_probes();
    let before = held();
    let (entry, back) = (format!("kprobe:{CALLED}"), format!("kretprobe:{CALLED}"));
    add(&[
        "calls",
        &format!("{entry} {{ record(pid) }}"),
        "grp/back",
        &format!("{back} {{ @ret = count() }}"),
        "tp",
        "syscalls:sys_enter_getppid { count() }",
    ]);
    getppid_calls(500);
    hit(&[("calls", 500), ("grp/back", 500), ("tp", 500)]);
    let all = listed();
    let named = |name: &str| all.iter().find(|probe| probe["name"] == name).unwrap();
    let calls = named("calls");
    assert_eq!(calls["kept"], calls["hits"], "{calls}");
    let site = &calls["sites"][0];
    assert_eq!(
        (&site["type"], &site["symbol"]),
        (&"k".into(), &CALLED.into()),
        "{calls}"
    );
    assert_eq!(named("grp/back")["sites"][0]["type"], "r");
    // The kernel's own list has them at the same place, with the same flags.
    let address = site["address"].as_str().unwrap().trim_start_matches("0x");
    let known = fs::read_to_string(LIST).unwrap();
    let flagged = known.lines().find(|l| l.starts_with(address)).unwrap();
    let all = kestrel(&["probe", "list", "--kernel"]).success();
    assert!(
        all.lines()
            .any(|l| l.starts_with(address) && l.ends_with("calls")),
        "{all}"
    );
    // Somebody else's, which is not switched on, is not taken for ours.
    define(&format!("p:theirs/off {CALLED}"));
    let all = kestrel(&["probe", "list", "--kernel"]).success();
    let theirs: Vec<&str> = all.lines().filter(|l| l.contains("[DISABLED]")).collect();
    assert!(
        matches!(theirs.as_slice(), [one] if one.starts_with(address) && one.ends_with(']')),
        "{all}"
    );
    // Nor one that is: the kernel's list has both at one address.
    let enabled = format!("{TRACEFS}/events/theirs/off/enable");
    fs::write(&enabled, "1").unwrap();
    let all = kestrel(&["probe", "list", "--kernel"]).success();
    let here: Vec<&str> = all
        .lines()
        .filter(|l| l.starts_with(address) && l.contains("  k  "))
        // The system call's tracepoint is a kprobe, too, where threads are preempted in programs of tracepoints.
        .filter(|l| !l.ends_with("tp"))
        .collect();
    let named = here.iter().filter(|line| line.ends_with("calls")).count();
    assert_eq!((here.len(), named), (2, 1), "{all}");
    fs::write(&enabled, "0").unwrap();
    define("-:theirs/off");

    // One by itself, all together, and the former stays as it was.
    kestrel(&["probe", "disable", "grp/back"]).success();
    getppid_calls(100);
    hit(&[("calls", 600), ("grp/back", 500)]);
    kestrel(&["probe", "disable", "--all"]).success();
    getppid_calls(100);
    let text = kestrel(&["probe", "list", "-v"]);
    assert!(text.err.contains("are switched off"), "{}", text.err);
    let text = text.success();
    assert_eq!(text.matches("[DISABLED]").count(), 1, "{text}");
    let line = text.lines().find(|line| line.starts_with("calls ")).unwrap();
    assert!(line.contains(address) && line.contains(CALLED), "{text}");
    assert_eq!(
        flagged.contains("[FTRACE]"),
        line.contains("[FTRACE]"),
        "{known}{text}"
    );
    let on = kestrel(&["probe", "enable", "--all"]);
    assert!(!on.err.contains("switched off"), "{}", on.err);
    getppid_calls(100);
    hit(&[("calls", 700), ("tp", 700), ("grp/back", 500)]);
    kestrel(&["probe", "enable", "grp/back"]).success();

    // The kernel's own switch.
    let off = kestrel(&["probe", "disable", "--kernel"]);
    assert_eq!(off.code, Some(0), "{}", off.err);
    assert_eq!(fs::read_to_string(ENABLED).unwrap().trim(), "0");
    getppid_calls(100);
    let shown = kestrel(&["probe", "list"]);
    assert!(shown.err.contains("kernel's own switch"), "{}", shown.err);
    kestrel(&["probe", "enable", "--kernel"]).success();
    assert_eq!(fs::read_to_string(ENABLED).unwrap().trim(), "1");
    getppid_calls(100);
    hit(&[("calls", 800), ("grp/back", 600), ("tp", 900)]);

    all_or_nothing(&entry);
    let lines = kestrel(&["probe", "list", "--format", "tracefs"]);
    assert_eq!(lines.code, Some(0));
    assert!(
        lines.err.contains("tp has no line of kprobe_events"),
        "{}",
        lines.err
    );

    // Records bear the probes' names, and are kept when the probes are removed.
    kestrel(&["probe", "remove", "tp", "grp/back"]).success();
    let kept = number(&probe("calls")["kept"]);
    kestrel(&["probe", "remove", "--all"]).success();
    getppid_calls(100);
    assert!(listed().is_empty());
    kestrel(&["buffer", "dump", "--session", SESSION, "-o", "/tmp/probes.trace"]).success();
    let records = records("/tmp/probes.trace");
    let of = |name: &str| records.iter().filter(|record| record.event == name).count();
    assert_eq!(of("calls") as u64, kept);
    // One that was there for a while under a name that has gone.
    assert_eq!(of("calls") + of("tp"), records.len());
    fs::remove_dir_all("/tmp/probes.trace").unwrap();
    kestrel(&["stop", SESSION]).success();
    wait_until_gone(&before);
}

/// A wrong entry leaves everything as it was.
fn all_or_nothing(entry: &str) {
    let there = listed().len();
    for (words, code, printed) in [
        (&["add", "calls", entry][..], 1, "there is a probe `calls`"),
        (
            &["add", "x", entry, "y", "kprobe:vfs_read { record(nope) }"],
            2,
            "nope",
        ),
        (&["add", "-x", entry], 2, "-x"),
        (&["add", "a b", entry], 2, "cannot be the name"),
        (&["add", "x"], 2, "without an event"),
        (&["add"], 2, "no probe to add"),
        (&["add", "p:x vfs_read a=%nope"], 2, "%nope"),
        (&["add", "--file", "/nowhere"], 1, "/nowhere"),
        (&["remove", "calls", "nope"], 2, "no probe `nope`"),
        (&["disable", "callz"], 2, "calls"),
        (&["disable"], 2, "NAME"),
        (&["list", "--session", "other"], 1, "other"),
    ] {
        let run = kestrel(&[&["probe"], words].concat());
        assert_eq!(run.code, Some(code), "{words:?}: {}", run.err);
        assert!(run.err.contains(printed), "{words:?}: {}", run.err);
    }
    let store = Store::open(&Host::default()).unwrap();
    let catalog = Catalog::new(Host::default());
    for (names, second, printed) in [
        (["x", "x"], entry, "there is a probe `x`"),
        (["x", "y"], "kprobe:no_such_function", "no_such_function"),
        (["x", "y"], "kprobe:vfs_read { }", "empty block"),
        (
            ["x", "y"],
            "jprobe:vfs_read, jprobe:vfs_read",
            "one jprobe at a time",
        ),
    ] {
        let request = |(name, source): (&str, &str)| ProbeRequest {
            name: name.to_owned(),
            source: source.to_owned(),
            ..ProbeRequest::default()
        };
        let both = [(names[0], entry), (names[1], second)].map(request);
        let added = store.add_probes(SESSION, &both, false, &catalog, "test");
        let why = match added.unwrap_err() {
            Error::Table { diagnostics, .. } => diagnostics[0].message.clone(),
            other => other.to_string(),
        };
        assert!(why.contains(printed), "{names:?} {second}: {why}");
    }
    assert_eq!(listed().len(), there);
    for verb in ["use", "unload"] {
        let refused = kestrel(&["table", verb, "probes", "--session", SESSION]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.err.contains("named probes"), "{}", refused.err);
    }
    // A probe that fails in a session that was made for it takes that with it.
    let other = kestrel(&[
        "probe",
        "add",
        "--session",
        "other",
        "x",
        "kprobe:no_such_function",
    ]);
    assert_eq!(other.code, Some(2));
    assert!(!kestrel(&["status", "--session", "other"]).err.is_empty());
    // Another text in the place of one, which begins at 0; registered only.
    let text = format!("{entry} {{ record(tid) }}");
    add(&["--replace", "--disabled", "tp", &text]);
    getppid_calls(10);
    kestrel(&["probe", "enable", "tp"]).success();
    getppid_calls(20);
    hit(&[("tp", 20)]);
    add(&["--replace", "tp", "syscalls:sys_enter_getppid { count() }"]);
    getppid_calls(10);
    hit(&[("tp", 10)]);
}

#[test]
fn beside_a_table_of_a_session() {
    let before = held();
    let table = format!("table one {{ kprobe:{CALLED} {{ @table = count() }} }} table two {{ }}");
    // A table that masks all is written with one row at least.
    let table = table.replace("table two { }", "table two { sched:sched_wakeup { } }");
    fs::write("/tmp/beside.kst", table).unwrap();
    kestrel(&["start", "beside", "/tmp/beside.kst"]).success();
    add(&[
        "--session",
        "beside",
        "extra",
        &format!("kprobe:{CALLED} {{ @probe = count() }}"),
    ]);
    let hits = || {
        let list = kestrel(&["probe", "list", "--session", "beside", "--format", "json"]).success();
        let probe: Value = serde_json::from_str(list.trim()).unwrap();
        (number(&probe["hits"]), number(&probe["missed"]))
    };
    getppid_calls(50);
    kestrel(&["table", "use", "two", "--session", "beside"]).success();
    getppid_calls(50);
    let (hit, missed) = hits();
    assert!(
        hit <= 100 && hit + missed >= 100,
        "whatever table is active: {hit}"
    );
    // Loading the same event's table fills the other hook's slot only.
    kestrel(&[
        "table",
        "load",
        "/tmp/beside.kst",
        "--table",
        "one",
        "--session",
        "beside",
    ])
    .success();
    kestrel(&["table", "use", "one", "--session", "beside"]).success();
    getppid_calls(50);
    let (hit, missed) = hits();
    assert!(hit <= 150 && hit + missed >= 150, "{hit}");
    let handlers = kestrel(&["handler", "list", "--session", "beside"]).success();
    assert!(handlers.contains("* probes/extra"), "{handlers}");
    let list = kestrel(&["table", "list", "--session", "beside"]).success();
    assert!(list.contains("probes"), "{list}");
    kestrel(&["probe", "remove", "--session", "beside", "extra"]).success();
    kestrel(&["stop", "beside"]).success();
    wait_until_gone(&before);
}

#[test]
fn many_at_one_address_and_in_one_function() {
    no_probes();
    let before = held();
    let rows: Vec<String> = (0..64)
        .map(|n| format!("one{n} kprobe:{CALLED} {{\n  @n[{n}] = count()\n}}\n"))
        .collect();
    fs::write("/tmp/rows.probes", rows.concat()).unwrap();
    add(&["--file", "/tmp/rows.probes"]);
    getppid_calls(100);
    let all = listed();
    assert_eq!(all.len(), 64);
    for probe in &all {
        let (hits, missed) = (number(&probe["hits"]), number(&probe["missed"]));
        assert!(hits <= 100 && hits + missed >= 100, "{probe}");
    }
    let known = fs::read_to_string(LIST).unwrap();
    let address = all[0]["sites"][0]["address"].as_str().unwrap();
    let there = known.matches(address.trim_start_matches("0x")).count();
    assert_eq!(there, 64, "{known}");
    // Removing half leaves the others whole.
    let half: Vec<String> = (0..32).map(|n| format!("one{n}")).collect();
    let half: Vec<&str> = half.iter().map(String::as_str).collect();
    kestrel(&[&["probe", "remove"], half.as_slice()].concat()).success();
    getppid_calls(100);
    hit(&[("one32", 200), ("one63", 200)]);
    kestrel(&["probe", "remove", "--all"]).success();

    let shown = kestrel(&["probe", "show", "vfs_read", "--format", "json"]).success();
    let offsets: Vec<u64> = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|instruction| instruction["probeable"] == true)
        .map(|instruction| number(&instruction["offset"]))
        // Behind an `endbr64` it is where the kernel puts a probe on the entry.
        .filter(|offset| *offset != 4)
        .take(64)
        .collect();
    assert_eq!(offsets.len(), 64, "{shown}");
    // Of a process whose reads do not depend on the pace of others, as this one's do, which reads the output of its commands.
    let rows: Vec<String> = offsets
        .iter()
        .map(|offset| format!("at{offset} kprobe:vfs_read+{offset} /comm == \"calls\"/ {{ record(tid) }}\n"))
        .collect();
    fs::write("/tmp/rows.probes", rows.concat()).unwrap();
    add(&["--file", "/tmp/rows.probes"]);
    vm_tests::run("calls", &["read", "50"]).success();
    let all = listed();
    assert_eq!(all.len(), 64);
    let first = &all[0];
    let (kept, missed) = (number(&first["kept"]), number(&first["missed"]));
    assert!(
        kept <= 60 && kept + missed >= 50,
        "calls and what the program's start reads: {first}"
    );
    let mut addresses: Vec<&str> = all
        .iter()
        .map(|probe| probe["sites"][0]["address"].as_str().unwrap())
        .collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 64, "{addresses:?}");
    kestrel(&["stop", SESSION]).success();
    wait_until_gone(&before);
}

/// Runs a command and kills it after a while.
fn kill_after(words: &[&str], micros: u64) {
    let mut child = Command::new("kestrel")
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_micros(micros));
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn killed_commands_leave_the_old_or_the_new() {
    let before = held();
    let event = format!("kprobe:{CALLED} {{ @n = count() }}");
    add(&["stays", &event]);
    let words = ["probe", "add", "one", &event, "two", &event];
    let begun = Instant::now();
    kestrel(&words).success();
    let adding = begun.elapsed().as_micros() as u64;
    let begun = Instant::now();
    kestrel(&["probe", "remove", "one", "two"]).success();
    let removing = begun.elapsed().as_micros() as u64;
    let rounds = std::env::var("KESTREL_KILLS").map_or(3, |text| text.parse().unwrap());
    let (mut added, mut stayed) = (0, 0);
    let names = || -> Vec<String> {
        listed()
            .iter()
            .map(|probe| probe["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut calls = 0;
    for round in 0..rounds {
        // From the beginning to beyond the end, most of them towards it.
        kill_after(&words, adding * 2 / 5 + adding * 4 / 5 * round / rounds);
        let now = names();
        match now.as_slice() {
            [_] => {}
            [_, one, two] if one == "one" && two == "two" => {
                added += 1;
                // Killed before it gave them their words, the next command that changes something does.
                kestrel(&["probe", "enable", "stays"]).success();
                getppid_calls(20);
                hit(&[("one", 20), ("two", 20)]);
                calls += 20;
                kill_after(
                    &["probe", "remove", "one", "two"],
                    removing * 2 / 5 + removing * 4 / 5 * round / rounds,
                );
            }
            half => panic!("half of it: {half:?}"),
        }
        if names().len() == 3 {
            stayed += 1;
            getppid_calls(20);
            calls += 20;
            hit(&[("one", 40)]);
            kestrel(&["probe", "remove", "one", "two"]).success();
        }
        assert_eq!(names(), ["stays"]);
        // The next command clears away what was left.
        kestrel(&["probe", "enable", "stays"]).success();
        assert_eq!(pins(), 1, "links of hooks");
    }
    hit(&[("stays", calls)]);
    println!("{added} of {rounds} were added, {stayed} of these stayed");
    kestrel(&["stop", SESSION]).success();
    wait_until_gone(&before);
}

/// Pinned links of hooks.
fn pins() -> usize {
    let names = fs::read_dir(format!("/sys/fs/bpf/kestrel/{SESSION}")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("hook")).count()
}

/// KiB of the kernel's memory that probes could leak into.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    of("SUnreclaim:") + of("Percpu:") + of("VmallocUsed:")
}

#[test]
fn added_and_removed_under_load() {
    let before = held();
    let store = Store::open(&Host::default()).unwrap();
    let catalog = Catalog::new(Host::default());
    let request = |name: String, event: &str| ProbeRequest {
        name,
        source: event.to_owned(),
        ..ProbeRequest::default()
    };
    let total: usize = std::env::var("KESTREL_PROBES").map_or(20, |text| text.parse().unwrap());
    let entry = format!("kprobe:{CALLED} {{ record(pid) }}");
    let back = format!("kretprobe:{CALLED} {{ record(began = entry.nsecs) }}");
    let add = |requests: &[ProbeRequest]| {
        store
            .add_probes(SESSION, requests, false, &catalog, "test")
            .unwrap()
    };
    add(&[request("stays".to_owned(), &entry)]);
    let mut load = Command::new("calls")
        .args(["getppid", &(total * 20_000).to_string()])
        .spawn()
        .unwrap();
    let round = |n: usize| {
        let names = [format!("a{n}"), format!("b{}", n % 7)];
        add(&[
            request(names[0].clone(), &back),
            request(names[1].clone(), &entry),
        ]);
        let mut change = store.change(Some(SESSION)).unwrap();
        change.enable_probes(&names[..1], false, &catalog).unwrap();
        change.enable_probes(&names[..1], true, &catalog).unwrap();
        change.remove_probes(&names).unwrap();
    };
    round(0);
    let (then, begun) = (memory(), Instant::now());
    for n in 1..=total / 2 {
        round(n);
    }
    println!("{total} probes in {:?}", begun.elapsed());
    let session = store.session(Some(SESSION)).unwrap();
    assert_eq!(session.state().probes.each.len(), 1);
    assert!(
        session.state().next_record as usize <= total + 20,
        "a probe has two numbers, one for what it records and one for its entry; those of a name are used again"
    );
    let kept = session.state().maps.iter().filter(|map| map.is_hidden());
    assert_eq!(kept.count(), 0, "what they kept for themselves went with them");
    drop(session);
    load.kill().unwrap();
    load.wait().unwrap();
    // Removed probes go in the background.
    until("all but one probe to go", || {
        fs::read_to_string(LIST).unwrap().lines().count() == 1
    });
    // Their memory follows, after grace periods.
    until("their memory", || {
        let grown = memory().saturating_sub(then);
        println!("{grown} KiB more than before");
        grown < 4096
    });
    store.stop(Some(SESSION)).unwrap();
    wait_until_gone(&before);
}

#[test]
fn one_more_beside_many() {
    let before = held();
    let rows: Vec<String> = (0..500)
        .map(|n| format!("many{n} kprobe:{CALLED} {{ @n[{n}] = count() }}\n"))
        .collect();
    if std::env::var("KESTREL_PROBES").is_err() {
        return vm_tests::skip("500 probes take a while: set KESTREL_PROBES");
    }
    fs::write("/tmp/many.probes", rows.concat()).unwrap();
    add(&["first", &format!("kprobe:{CALLED}")]);
    let begun = Instant::now();
    add(&["second", &format!("kprobe:{CALLED}")]);
    let second = begun.elapsed();
    println!("the second in {second:?}");
    let begun = Instant::now();
    add(&["--file", "/tmp/many.probes"]);
    let all = begun.elapsed();
    let begun = Instant::now();
    add(&["more", &format!("kprobe:{CALLED}")]);
    let more = begun.elapsed();
    let begun = Instant::now();
    kestrel(&["probe", "remove", "more"]).success();
    println!(
        "500 in {all:?}, one more in {more:?}, removed in {:?}",
        begun.elapsed()
    );
    assert!(more < second + all / 20, "the others are not made again");
    kestrel(&["stop", SESSION]).success();
    wait_until_gone(&before);
}

/// A user who has added a probe asks for it as for an event, as other tools have it.
#[test]
fn a_probe_asked_for_as_an_event_is_answered_by_its_session() {
    no_probes();
    add(&["p:opened do_sys_openat2 dfd=$arg1"]);
    for event in ["opened", "kprobes:opened"] {
        let asked = kestrel(&["trace", "-e", event, "--", "true"]);
        assert_ne!(asked.code, Some(0));
        let hint = "hint: `opened` is a named probe, which records into the session probes";
        assert!(asked.err.contains(hint), "{}", asked.err);
    }
    kestrel(&[
        "trace",
        "--session",
        "probes",
        "--since",
        "10s",
        "--duration",
        "1",
    ])
    .success();
    kestrel(&["buffer", "dump", "--session", "probes", "-o", "/tmp/opened.trace"]).success();
    kestrel(&["probe", "del", "opened"]).success();
    no_probes();
}
