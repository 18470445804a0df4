//! The guest itself: whether it is the place that the other tests take for granted.

use std::{fs, path::Path, time::SystemTime};

use vm_tests::{BPFFS, TRACEFS, kestrel, release, run, shell, version};

#[test]
fn the_kernel_is_the_one_asked_for() {
    let series = std::env::var("KESTREL_GUEST_SERIES").expect("xtask names the series");
    let (major, minor) = version();
    assert_eq!(format!("{major}.{minor}"), series, "{}", release());
    assert_eq!(
        release(),
        std::env::var("KESTREL_GUEST_RELEASE").expect("xtask names the release")
    );
}

#[test]
fn kernel_file_systems_are_mounted() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    for (place, kind) in [
        ("/proc", "proc"),
        ("/sys", "sysfs"),
        ("/dev/pts", "devpts"),
        ("/sys/kernel/debug", "debugfs"),
        (TRACEFS, "tracefs"),
        (BPFFS, "bpf"),
        ("/sys/fs/cgroup", "cgroup2"),
        ("/tmp", "tmpfs"),
        ("/run", "tmpfs"),
    ] {
        let found = mounts.lines().any(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words[1] == place && words[2] == kind
        });
        assert!(found, "{kind} on {place} in:\n{mounts}");
    }
    assert!(
        Path::new(TRACEFS)
            .join("events/sched/sched_switch/format")
            .exists()
    );
    assert!(Path::new("/sys/kernel/btf/vmlinux").exists());
    assert!(Path::new("/dev/fd/0").exists());
}

#[test]
fn kprobes_work_and_leave_nothing_behind() {
    let events = Path::new(TRACEFS).join("kprobe_events");
    let append = |line: &str| {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().append(true).open(&events).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    };
    append("p:boot_test/probe vfs_read\n");
    let group = Path::new(TRACEFS).join("events/boot_test/probe");
    fs::write(group.join("enable"), "1").unwrap();
    let before = hits();
    vm_tests::read_calls(1000).unwrap();
    let after = hits();
    fs::write(group.join("enable"), "0").unwrap();
    append("-:boot_test/probe\n");
    assert!(after - before >= 1000, "{before} → {after}");
    assert!(!group.exists());
}

/// The hits of our probe, from the table that counts them all.
fn hits() -> u64 {
    let profile = fs::read_to_string(Path::new(TRACEFS).join("kprobe_profile")).unwrap_or_default();
    let line = profile
        .lines()
        .find(|line| line.split_whitespace().next() == Some("probe"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or_default()
}

#[test]
fn the_clock_is_set_after_a_restore() {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let sent: u64 = std::env::var("KESTREL_GUEST_NOW")
        .expect("xtask names the time")
        .parse()
        .unwrap();
    assert!(now.abs_diff(sent) < 120, "here {now}, the host said {sent}");
}

#[test]
fn programs_are_on_the_path() {
    assert_eq!(shell("echo one two | wc -w").success().trim(), "2");
    assert_eq!(run("calls", &["getppid", "10"]).code, Some(0));
    assert_eq!(run("calls", &["nonsense"]).code, Some(2));
}

#[test]
fn kestrel_prints_its_version() {
    let printed = kestrel(&["--version"]).success();
    assert!(printed.starts_with("kestrel "), "{printed:?}");
}
