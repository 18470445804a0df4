//! Hostile surroundings: full disks, traces that were cut, privileges and parts of the kernel that are missing. A clear sentence, the documented code.

use crate::command::{Answer, WorkFolder, has, needs_tracing};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_full_disk() {
    needs_tracing!();
    let place = WorkFolder::new();
    let script = "mkdir small && mount -t tmpfs -o size=64k none small && \
                  $K record -a -e 'raw_syscalls:*' --duration 20 -o small/trace -- sh -c 'while :; do read x < /proc/version; done'; \
                  code=$?; $K print small/trace 2>/dev/null | wc -l; exit $code";
    let Some(answer) = place.in_namespace(script) else {
        return;
    };
    answer.fails(1, &["No space left on device", "hint: the disk is full"]);
    let lines: u64 = answer.out.trim().parse().unwrap();
    assert!(lines > 100, "what fitted is a trace: {lines} lines");
}

#[test]
fn a_full_disk_is_noted_in_the_trace() {
    // A trace that is kept until the command has ended is whole; one that is written meanwhile ends where the disk does.
    notes_a_full_disk("--overwrite", true);
    notes_a_full_disk("--buffer-size 4M", false);
}

fn notes_a_full_disk(option: &str, exact: bool) {
    needs_tracing!();
    let place = WorkFolder::new();
    let script = "l() { echo 'i=0; while [ $i -lt '$1' ]; do umask 22; i=$((i+1)); done'; }; \
                  $K record -e 'syscalls:sys_enter_umask' -o few.trace -- sh -c \"$(l 100)\" && $K print few.trace >few; mkdir small && mount -t tmpfs -o size=64k none small && \
                  $K record -e 'syscalls:sys_enter_umask' OPTION -o small/trace -- sh -c \"$(l 30000)\" 2>said; \
                  echo $? >codes; $K report --format json small/trace 2>report.err >report; echo $? >>codes; $K report small/trace >text 2>>report.err; \
                  $K print small/trace 2>print.err >lines; echo $? >>codes; cp -r small/trace/.kestrel kept; ls -A small/trace/.kestrel";
    let Some(answer) = place.in_namespace(&script.replace("OPTION", option)) else {
        return;
    };
    let text = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(text("codes"), "1\n1\n1\n", "{}{}", answer.err, text("said"));
    let report: Value = serde_json::from_str(&text("report")).unwrap();
    let counted = report["counted"].as_array().unwrap();
    let sum = |key: &str| counted.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    let (recorded, lost) = (sum("recorded"), sum("lost"));
    // A shell makes several calls in each round, the same in all.
    let all = 300 * text("few").lines().count() as u64;
    let called = recorded + lost;
    assert!(
        all >= 30_000 && called <= all,
        "{called} of {all}\n{}",
        text("said")
    );
    assert!(!exact || called == all, "{called} of {all}\n{}", text("said"));
    assert!(recorded > 100, "{recorded} and {lost}");
    assert_eq!(text("lines").lines().count() as u64, recorded);
    let unwritten = report["cut_short"]["unwritten"].as_u64().unwrap();
    assert!(unwritten > 0 && unwritten <= lost, "{unwritten} of {lost}");
    let printed = text("said");
    let number = |n: u64| kestrel_trace::print::thousands(n);
    assert!(printed.contains(&format!("lost {}", number(lost))), "{printed}");
    assert!(printed.contains("No space left on device"), "{printed}");
    let whole = "the trace is not whole: recording was cut short (No space left on device";
    for name in ["said", "report.err", "print.err"] {
        assert!(text(name).contains(whole), "{name}: {}", text(name));
    }
    assert!(
        text("text").contains(&format!("lost {}", number(lost))),
        "{}",
        text("text")
    );
    assert!(
        !answer.out.contains(".new"),
        "nothing half written: {}",
        answer.out
    );
}

#[test]
fn a_trace_cut_in_half() {
    needs_tracing!();
    let place = WorkFolder::new();
    place
        .run(&[
            "record",
            "-a",
            "-e",
            "raw_syscalls:*",
            "-o",
            "t",
            // So that the half of a stream is several pages on a quiet machine, too.
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); : > /dev/null; done",
        ])
        .succeeds();
    let lines = |answer: &Answer| answer.out.lines().count();
    let whole = place.run(&["print", "t"]).succeeds();
    let mut streams: Vec<_> = fs::read_dir(place.path().join("t"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !path.ends_with("metadata"))
        .collect();
    streams.sort_by_key(|path| fs::metadata(path).unwrap().len());
    let longest = streams.last().unwrap();
    let bytes = fs::metadata(longest).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(longest).unwrap();
    file.set_len(bytes / 2 + 100).unwrap();
    let whole_json = |answer: &Answer| serde_json::from_str::<Value>(&answer.out).unwrap();
    let cut = place.run(&["print", "t"]);
    let name = longest.file_name().unwrap().to_str().unwrap();
    let of_it = format!("{name} was cut or damaged: ");
    cut.fails(1, &["damaged", "was cut", "the trace is not whole: ", &of_it]);
    assert!(lines(&cut) > 0 && lines(&cut) < lines(&whole));
    let there = |answer: &Answer| whole_json(answer)["records"].as_u64().unwrap() as usize;
    let report = place.run(&["report", "t"]);
    report.fails(1, &["the trace is not whole: ", &of_it]);
    assert!(report.out.contains("was cut"), "{}", report.out);
    // Between two packets there is nothing to see of a cut.
    file.set_len(bytes / 2 / 4096 * 4096).unwrap();
    let cut = place.run(&["print", "t"]);
    cut.fails(1, &["the trace is not whole: ", &of_it]);
    assert!(!cut.err.contains("1 packet is damaged"), "{}", cut.err);
    let report = place.run(&["report", "--format", "json", "t"]);
    report.fails(1, &["the trace is not whole: "]);
    assert_eq!(there(&report), lines(&cut));
    let absent = whole_json(&report)["absent"].clone();
    assert_eq!(absent[0]["files"][0], *name, "{absent}");
    let number = |key: &str| absent[0][key].as_u64().unwrap() as usize;
    assert_eq!(
        lines(&whole) - lines(&cut),
        number("recorded") - number("found"),
        "{absent}"
    );
    fs::remove_file(longest).unwrap();
    let removed = place.run(&["print", "t"]);
    removed.fails(
        1,
        &["the trace is not whole: ", &format!("{name} is not there: 0 of ")],
    );
    fs::remove_file(place.path().join("t/metadata")).unwrap();
    place.run(&["print", "t"]).fails(1, &["no metadata"]);
}

#[test]
fn an_unprivileged_user_may_not_trace() {
    let place = WorkFolder::new();
    // A copy that no other user can reach.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("kestrel");
    // Another process writes it: one that this process starts meanwhile for another test would hold it open for a moment, and the kernel runs nothing
    // that somebody may write.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_kestrel"))
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    if !has("setpriv") {
        return;
    }
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let nobody = |arguments: &[&str]| -> Answer {
        let mut command = if root {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--clear-groups", "--inh-caps=-all"])
                .arg(&copy);
            command
        } else {
            Command::new(&copy)
        };
        command.args(arguments).current_dir("/").output().unwrap().into()
    };
    let out = "/tmp/kestrel-of-nobody";
    nobody(&["record", "-e", "sched:sched_switch", "-o", out, "--", "true"]).fails(3, &["hint:", "CAP_BPF"]);
    nobody(&["trace", "-e", "sched:sched_switch", "--duration", "1"]).fails(3, &["hint:", "CAP_BPF"]);
    nobody(&["list", "sched:*"]).fails(3, &["hint:"]);
    let doctor = nobody(&["doctor"]);
    assert_eq!(doctor.code, Some(3));
    assert!(doctor.out.contains("CAP_BPF"), "{}", doctor.out);
    assert!(!std::path::Path::new(out).exists());
}

#[test]
fn the_privilege_that_is_missing_is_named() {
    needs_tracing!();
    if !has("setpriv") {
        return;
    }
    let place = WorkFolder::new();
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    // Bare capabilities are raised by root alone.
    if !root {
        eprintln!("skipped: this is not root");
        return;
    }
    let unmounted =
        "while umount /sys/kernel/tracing 2>/dev/null; do :; done; umount -R /sys/kernel/debug 2>/dev/null; ";
    let without = "setpriv --bounding-set -sys_admin --inh-caps -sys_admin";
    let script = format!("{unmounted} {without} $K list sched:sched_switch");
    let Some(answer) = place.in_namespace(&script) else {
        return;
    };
    answer.fails(3, &["CAP_SYS_ADMIN", "mounting"]);
    // There, but closed.
    let mounted = "while umount /sys/kernel/tracing 2>/dev/null; do :; done; mount -t tracefs -o mode=700 nodev /sys/kernel/tracing && ";
    let files = "chmod 755 . && cp $K ./k && chmod 755 k && ";
    let few = "setpriv --reuid=65534 --clear-groups --inh-caps=-all,+bpf,+perfmon --ambient-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon";
    for arguments in [
        "list sched:sched_switch",
        "record -e sched:sched_switch -a --duration 1ms -o /dev/null/t",
    ] {
        let script = format!("{mounted} {files} {few} ./k {arguments}");
        let answer = place.in_namespace(&script).unwrap();
        answer.fails(3, &["/sys/kernel/tracing", "CAP_DAC_OVERRIDE", "gid=GROUP"]);
        assert!(!answer.err.contains("mount /sys"), "{}", answer.err);
    }
}

#[test]
fn without_tracefs() {
    needs_tracing!();
    let place = WorkFolder::new();
    let script = "mount -t tmpfs none /sys/kernel && $K record -e sched:sched_switch -- true";
    let Some(answer) = place.in_namespace(script) else {
        return;
    };
    answer.fails(4, &["tracing", "hint:"]);
}

#[test]
fn without_btf() {
    needs_tracing!();
    let place = WorkFolder::new();
    let hide = "mount -t tmpfs none /sys/kernel/btf && ";
    // Tracepoints need no types.
    let script = format!("{hide} $K record -e sched:sched_switch -a --duration 100ms && $K print | head -1");
    let Some(answer) = place.in_namespace(&script) else {
        return;
    };
    let answer = answer.succeeds();
    assert!(answer.out.contains("sched_switch: prev_comm="), "{}", answer.out);
    // What needs them says so: following a command does, whatever is recorded of it.
    let script = format!("{hide} $K record -e sched:sched_switch -- true");
    let printed = [
        "following a command's processes",
        "-p PID --only-own neither",
        "CONFIG_DEBUG_INFO_BTF",
    ];
    place.in_namespace(&script).unwrap().fails(4, &printed);
    let script = format!("{hide} $K record -e 'fentry:vfs_read' -a --duration 100ms");
    place
        .in_namespace(&script)
        .unwrap()
        .fails(4, &["BTF", "CONFIG_DEBUG_INFO_BTF"]);
    let script = format!(
        "{hide} $K record -e 'sched:sched_switch {{ record(((struct task_struct *)curtask)->pid) }}' -a --duration 100ms"
    );
    place.in_namespace(&script).unwrap().fails(2, &["types"]);
    let script = format!("{hide} $K record -e 'sched:sched_switch /curtask->pid > 1/' -a --duration 100ms");
    place
        .in_namespace(&script)
        .unwrap()
        .fails(2, &["publishes none", "CONFIG_DEBUG_INFO_BTF"]);
}

#[test]
fn a_file_without_room_is_named_with_its_folder() {
    needs_tracing!();
    let place = WorkFolder::new();
    let calls = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); : > /dev/null; done";
    place
        .run(&[
            "record",
            "-e",
            "raw_syscalls:*",
            "-o",
            "t",
            "--",
            "sh",
            "-c",
            calls,
        ])
        .succeeds();
    place.run(&["cut", "t", "-o", "u"]).succeeds();
    for words in ["cut t -o part", "merge t u -o part"] {
        let line = format!("trap '' XFSZ; ulimit -f 32; exec \"$K\" {words}");
        let output = std::process::Command::new("sh")
            .args(["-c", &line])
            .env("K", env!("CARGO_BIN_EXE_kestrel"))
            .current_dir(place.path())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains("cannot write .part.new/main_"), "{printed}");
        assert!(printed.contains("File too large"), "{printed}");
        assert!(!place.path().join("part").exists());
    }
}
