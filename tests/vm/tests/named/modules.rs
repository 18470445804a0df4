//! Probes and tables in modules that are unloaded and loaded again.

use super::{CALLED, DEFINITIONS, LIST, held, wait_until_gone};
use kestrel::session::named::SESSION;
use serde_json::Value;
use std::fs;
use vm_tests::named::{add, hit, listed, number, probe};
use vm_tests::recording::Recorder;
use vm_tests::{getppid_calls, kestrel, shell, until};

/// A module that is there and not in use, and a function of it that reading a file calls.
const MODULE: &str = "qemu_fw_cfg";

const READS: &str = "fw_cfg_sysfs_read_raw";

#[test]
fn a_table_sees_a_module_that_comes_back() {
    if !fs::read_to_string("/proc/modules").unwrap().contains(MODULE) {
        return vm_tests::skip("the module is built in");
    }
    let table = format!(
        "table one {{ kprobe:{READS} {{ record(pid) }} kretprobe:{MODULE}:{READS} {{ record(began = entry.nsecs) }} kprobe:{MODULE}:fw_cfg_sysfs_p* {{ count() }} }}"
    );
    fs::write("/tmp/modules.kst", table).unwrap();
    kestrel(&["start", "modules", "/tmp/modules.kst"]).success();
    fs::write(
        "/tmp/typed.kst",
        format!("table one {{ fexit:{MODULE}:{READS} {{ record() }} }}"),
    )
    .unwrap();
    let file = shell("ls /sys/firmware/qemu_fw_cfg/by_key/*/raw | head -1").success();
    let status = || -> Value {
        serde_json::from_str(&kestrel(&["status", "modules", "--format", "json"]).success()).unwrap()
    };
    let recorded = |event: &str| {
        let status = status();
        let all = status["events"].as_array().unwrap().iter();
        all.filter(|one| one["event"].as_str().unwrap().starts_with(event))
            .map(|one| number(&one["recorded"]))
            .sum::<u64>()
    };
    let read = || shell(&format!("cat {} > /dev/null", file.trim())).success();
    let both = || (recorded("kprobe:"), recorded("kretprobe:"));
    read();
    let (entries, returns) = both();
    assert!(entries > 0 && entries == returns, "{entries} {returns}");
    for round in 2..4 {
        shell(&format!("rmmod {MODULE}")).success();
        let absent = status();
        assert_eq!(absent["modules"][0]["state"], "absent", "{absent}");
        // The programs are made anew for it, and come with the module as the ones before would have.
        kestrel(&[
            "buffer",
            "resize",
            "main",
            &format!("{round}M"),
            "--session",
            "modules",
        ])
        .success();
        shell(&format!("insmod /modules/{MODULE}.ko")).success();
        read();
        assert_eq!(status()["modules"].as_array().unwrap().len(), 0);
        assert_eq!(both(), (entries * round, returns * round));
    }
    let directory = "/tmp/modules-dump";
    kestrel(&["buffer", "dump", "--session", "modules", "-o", directory]).success();
    let kept = kestrel(&["print", directory]).success();
    println!("{kept}");
    assert_eq!(
        kept.matches("kretprobe:").count() as u64,
        2 * returns,
        "the ring and the one before it"
    );
    kestrel(&["stop", "modules"]).success();
    shell(&format!("rmmod {MODULE}")).success();
    let refused = kestrel(&["start", "/tmp/typed.kst"]);
    assert!(
        refused.err.contains("is not loaded; load it first") && refused.code != Some(0),
        "{}",
        refused.err
    );
    shell(&format!("insmod /modules/{MODULE}.ko")).success();
    // A session that is begun while the module is away sees it come, too.
    shell(&format!("rmmod {MODULE}")).success();
    fs::write(
        "/tmp/modules.kst",
        format!("table one {{ kprobe:{MODULE}:{READS} {{ record(pid) }} }}"),
    )
    .unwrap();
    kestrel(&["start", "modules", "/tmp/modules.kst"]).success();
    shell(&format!("insmod /modules/{MODULE}.ko")).success();
    read();
    assert_eq!(recorded("kprobe:"), entries);
    kestrel(&["stop", "modules"]).success();
    assert!(!fs::read_to_string(DEFINITIONS).unwrap().contains(MODULE));
}

#[test]
fn a_module_comes_and_goes() {
    if !fs::read_to_string("/proc/modules").unwrap().contains(MODULE) {
        return vm_tests::skip("the module is built in");
    }
    let before = held();
    let file = shell("ls /sys/firmware/qemu_fw_cfg/by_key/*/raw | head -1").success();
    let read = format!("cat {} > /dev/null", file.trim());
    let event = format!("kprobe:{MODULE}:{READS} {{ record(pid) }}");
    let back = format!("kretprobe:{MODULE}:{READS} {{ record(began = entry.nsecs) }}");
    add(&["mod", &event, "other", &format!("kprobe:{CALLED}"), "back", &back]);
    let hits = || number(&probe("mod")["hits"]);
    shell(&read).success();
    let first = hits();
    assert!(first > 0);
    let list = kestrel(&["probe", "list"]).success();
    assert!(
        list.contains(&format!("[{MODULE}]")) && !list.contains("[GONE]"),
        "{list}"
    );
    shell(&format!("rmmod {MODULE}")).success();
    let list = kestrel(&["probe", "list"]).success();
    assert_eq!(list.matches("[GONE]").count(), 2, "{list}");
    assert_eq!(probe("mod")["sites"][0]["gone"], true);
    // A probe that is gone has nothing to be made anew for.
    kestrel(&["buffer", "resize", "main", "64K", "--session", SESSION]).success();
    let other = number(&probe("other")["hits"]);
    getppid_calls(10);
    hit(&[("other", other + 10)]);
    let early = kestrel(&["probe", "enable", "mod"]);
    assert_eq!(early.code, Some(0), "it waits for its module: {}", early.err);
    // As the kernel takes a line about a module that is not there.
    add(&[
        &format!("p:lines/waits {MODULE}:{READS} of=%di"),
        "many",
        &format!("kretprobe:{MODULE}:{READS}:maxactive=7"),
        &format!("p:lines/later {MODULE}:{READS} code=@{READS}:x8"),
    ]);
    let list = kestrel(&["probe", "list"]);
    assert_eq!(list.out.matches("[WAITING]").count(), 4, "{}", list.out);
    // Emptying the kernel's file is refused, and the message names Kestrel.
    assert!(fs::File::create(DEFINITIONS).is_err());
    assert!(
        list.err.contains("lines/waits") && list.err.contains("EBUSY"),
        "{}",
        list.err
    );
    let doctor = kestrel(&["doctor"]).out;
    assert!(
        doctor.contains("the session probes has events in kprobe_events"),
        "{doctor}"
    );
    shell(&format!("insmod /modules/{MODULE}.ko")).success();
    shell(&read).success();
    assert_eq!(
        number(&probe("lines/waits")["hits"]),
        first,
        "attached by the kernel"
    );
    assert_eq!(number(&probe("many")["hits"]), first, "attached by the kernel");
    let lines = kestrel(&["probe", "list", "--format", "tracefs"]).out;
    assert!(
        lines.contains(&format!("r7:kestrel/many {MODULE}:{READS}")),
        "{lines}"
    );
    kestrel(&["probe", "remove", "lines/waits", "many"]).success();
    // The kernel attached the probe that waited for the module; those that were there before it does not attach again.
    assert_eq!(hits(), first);
    assert_ne!(probe("back")["sites"][0]["gone"], false);
    // The symbol that it fetches from came with the module: the line is read again.
    assert_eq!(number(&probe("lines/later")["kept"]), 0);
    kestrel(&["probe", "enable", "lines/later"]).success();
    shell(&read).success();
    assert_eq!(number(&probe("lines/later")["kept"]), first);
    kestrel(&["probe", "remove", "lines/later"]).success();
    kestrel(&["probe", "enable", "back"]).success();
    assert_eq!(probe("mod")["sites"][0]["gone"], false);
    kestrel(&["buffer", "resize", "main", "128K", "--session", SESSION]).success();
    let both = || {
        let all = listed();
        let of = |name: &str| all.iter().find(|probe| probe["name"] == name).unwrap();
        (number(&of("mod")["hits"]), number(&of("back")["kept"]))
    };
    let before_it = both();
    shell(&read).success();
    let after = both();
    assert_eq!(after.0 - before_it.0, first, "attached anew");
    assert_eq!(after.1 - before_it.1, first, "its entry, too");
    kestrel(&["stop", SESSION]).success();
    wait_until_gone(&before);

    // A recorder attaches again by itself what it has there, and says so.
    let recording = Recorder::start(
        "module",
        &[
            "-a",
            "-e",
            &format!("kprobe:{MODULE}:{READS}"),
            "-e",
            &format!("kretprobe:{MODULE}:{READS}"),
        ],
    );
    shell(&read).success();
    shell(&format!("rmmod {MODULE}; insmod /modules/{MODULE}.ko")).success();
    until("the recorder to attach again", || {
        let list = fs::read_to_string(LIST).unwrap_or_default();
        list.lines()
            .filter(|line| line.contains(READS) && !line.contains("[GONE]"))
            .count()
            >= 2
    });
    shell(&read).success();
    let (records, _, printed) = recording.stop();
    for kind in ["kprobe", "kretprobe"] {
        let event = format!("{kind}:{MODULE}:{READS}");
        let seen = records.iter().filter(|record| record.event == event).count() as u64;
        // Where links do not count misses (6.1), the kernel puts the return probe back by itself before the recorder listens to it again.
        let unheard = if kind == "kretprobe" && vm_tests::version() < (6, 12) {
            first
        } else {
            0
        };
        assert!(
            (2 * first - unheard..=2 * first).contains(&seen),
            "{event}, {seen}: {printed}"
        );
    }
    assert!(
        printed.contains(&format!("the module {MODULE} was unloaded and loaded again")),
        "{printed}"
    );

    // Its functions have types, for every kind of event that is about functions.
    let typed = [
        format!("jprobe:{MODULE}:{READS}"),
        format!("fentry:{MODULE}:{READS} {{ record(args.count, offset = args.pos) }}"),
        format!("fexit:{READS} {{ record(args.count, retval) }}"),
        format!("kprobe:{MODULE}:{READS}* {{ record(args.count, x = arg5) }}"),
        format!("kretprobe:{MODULE}:{READS} {{ record(n = entry.args.count, retval) }}"),
    ];
    let mut options = vec!["-a"];
    options.extend(typed.iter().flat_map(|event| ["-e", event.as_str()]));
    let recording = Recorder::start("typed", &options);
    shell(&read).success();
    let (records, _, printed) = recording.stop();
    let of = |start: &str, field: &str| -> Vec<i64> {
        let own = records.iter().filter(|record| record.event.starts_with(start));
        own.map(|record| record.number(field)).collect()
    };
    let counts = of("jprobe:", "count");
    assert_eq!(counts.len() as u64, first, "{printed}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    for (start, field) in [
        ("fentry:", "count"),
        ("fexit:", "count"),
        ("kprobe:", "count"),
        ("kprobe:", "x"),
        ("kretprobe:", "n"),
    ] {
        assert_eq!(of(start, field), counts, "{start} {field}");
    }
    assert_eq!(of("fexit:", "retval"), of("kretprobe:", "retval"));
    wait_until_gone(&before);
}
