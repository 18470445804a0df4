//! Jprobes: what the caller gave, shown as the call in C.

use super::list_of_kprobes;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use std::fs;
use vm_tests::kestrel;
use vm_tests::recording::{Record, Recorder, missed};

#[test]
fn jprobes_have_the_callers_arguments() {
    // Six parameters, two of them pointers to structures; what they were, the caller knows.
    let fentry = "fentry:vfs_copy_file_range { record(args.file_in, args.pos_in, args.file_out, args.pos_out, args.len, args.flags) }";
    let walks = "{ record(args.dfd, name = str(args.filename), flags = args.how->flags) }";
    let (event, other) = (
        &format!("jprobe:do_sys_openat2 {walks}"),
        &format!("fentry:do_sys_openat2 {walks}"),
    );
    let options = [
        "-e",
        "jprobe:vfs_copy_file_range",
        "-e",
        fentry,
        "-e",
        event,
        "-e",
        other,
    ];
    fs::write("/tmp/copied", [b'x'; 100]).unwrap();
    let recorder = Recorder::start("jprobe", &options);
    let (from, to) = (
        fs::File::open("/tmp/copied").unwrap(),
        fs::File::create("/tmp/copy").unwrap(),
    );
    let (mut at, mut behind) = (3, 5);
    let _ = rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut behind), 17);
    let (records, counts, printed) = recorder.stop();
    let own = u64::from(std::process::id());
    let of = |event: &str| {
        let ours = |r: &&Record| r.pid == own && r.event == event;
        records.iter().filter(ours).collect::<Vec<_>>()
    };
    let (jprobe, fentry) = (of("jprobe:vfs_copy_file_range"), of("fentry:vfs_copy_file_range"));
    assert!(
        counts.explain(jprobe.len(), 1) && counts.explain(fentry.len(), 1),
        "{printed}"
    );
    for record in jprobe.iter().chain(&fentry) {
        let numbers = ["pos_in", "pos_out", "len", "flags"].map(|name| record.number(name));
        assert_eq!(numbers, [3, 5, 17, 0]);
        assert_ne!(record.text("file_in"), record.text("file_out"));
    }
    if let ([one], [other]) = (jprobe.as_slice(), fentry.as_slice()) {
        assert_eq!(one.text("file_in"), other.text("file_in"));
        assert_eq!(one.text("file_out"), other.text("file_out"));
    }
    let opened = |event: &str| -> Vec<String> {
        // Files that this test opened to see whether the recorder is there may have come before the one and behind the other.
        let ours = of(event);
        ours.iter()
            .filter(|r| r.text("name").starts_with("/tmp/cop"))
            .map(|r| format!("{} {:#x}", r.text("name"), r.number("flags")))
            .collect()
    };
    let (jprobe, fentry) = (opened("jprobe:do_sys_openat2"), opened("fentry:do_sys_openat2"));
    // A program that is preempted makes the kernel skip what others open on its CPU.
    if counts.missed == 0 {
        assert_eq!(jprobe, fentry, "{printed}");
        assert!(
            jprobe.iter().any(|line| line.starts_with("/tmp/copied ")),
            "{jprobe:?}"
        );
    }
    let run = kestrel(&["trace", "-e", event, "--", "cat", "/proc/uptime"]);
    assert!(
        run.out
            .contains("do_sys_openat2(dfd=AT_FDCWD, name=\"/proc/uptime\", flags=")
            || missed(&run.err) > 0,
        "{}{}",
        run.out,
        run.err
    );
    let twice = kestrel(&["trace", "-e", "j:vfs_read", "-e", "j:vfs_read", "--", "true"]);
    assert_ne!(twice.code, Some(0), "{}", twice.err);
    assert!(twice.err.contains("one jprobe at a time"), "{}", twice.err);
}

#[test]
fn a_second_jprobe_by_another_name_is_refused() {
    // Of functions with several names the kernel's types have most by one; these by two.
    let catalog = Catalog::new(Host::default());
    let (types, symbols) = (catalog.types().unwrap(), catalog.symbols().unwrap());
    let pairs = ["inotify_init", "munlockall", "sgetmask", "getuid16"]
        .map(|call| [format!("__x64_sys_{call}"), format!("__do_sys_{call}")]);
    let one = |pair: &&[String; 2]| {
        let [first, second] = pair.each_ref().map(|name| {
            let address = symbols.named(name).next().map(|symbol| symbol.address);
            address.filter(|_| types.function(name).is_some())
        });
        first.is_some() && first == second
    };
    let Some([first, second]) = pairs.iter().find(one) else {
        return vm_tests::skip("the kernel's types have no function by two of its names");
    };
    let (first, second) = (format!("jprobe:{first}"), format!("jprobe:{second}"));
    let refused = |run: vm_tests::Run, how: &str| {
        assert_ne!(run.code, Some(0), "{how}: {}{}", run.out, run.err);
        assert!(run.err.contains("one jprobe at a time"), "{how}: {}", run.err);
    };
    let trace = ["trace", "-e", &first, "-e", &second, "--", "true"];
    refused(kestrel(&trace), "two events");
    let both = format!("{first},{second}");
    refused(kestrel(&["trace", "-e", &both, "--", "true"]), "one text");
    fs::write(
        "/tmp/second.kst",
        format!("table main {{ {first} {{ record() }} {second} {{ record() }} }}"),
    )
    .unwrap();
    refused(kestrel(&["table", "check", "/tmp/second.kst"]), "one table");
    kestrel(&["probe", "add", "one", &first]).success();
    refused(kestrel(&["probe", "add", "two", &second]), "a named probe");
    let list = kestrel(&["probe", "list"]).success();
    kestrel(&["probe", "remove", "--all"]).success();
    kestrel(&["stop", "probes"]).success();
    assert!(list.contains("one") && !list.contains("two"), "{list}");
    // One alone is a probe like any other.
    kestrel(&["trace", "-e", &second, "--", "true"]).success();
    assert_eq!(list_of_kprobes(), "", "nothing stays");
}
