//! Events of programs' own, seen from outside: by Kestrel with names and types, by bpftrace and perf, to the last one.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use vm_tests::pages::Page;
use vm_tests::recording::{Record, record_command};
use vm_tests::{Run, kestrel, run, shell};

/// Number of events that each counts.
const EVENTS: u64 = 100_000;
/// The example in C, as the test's build has made it.
const SERVER_C: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/server_c"));

/// The example in C in this guest.
fn server_c() -> &'static str {
    let path = "/tmp/server_c";
    if !Path::new(path).exists() {
        fs::write(path, SERVER_C).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    path
}

/// The text behind an event's name in lines.
fn behind<'t>(text: &'t str, event: &str) -> Vec<&'t str> {
    let name = format!("{event}: ");
    text.lines()
        .filter_map(|line| line.split_once(&name).map(|(_, rest)| rest))
        .collect()
}

fn named<'r>(records: &'r [Record], event: &str) -> Vec<&'r Record> {
    records
        .iter()
        .filter(|record| record.event.ends_with(event))
        .collect()
}

#[test]
fn records_have_names_types_and_the_events_own_lines() {
    let directory = "/tmp/server.trace";
    let _ = fs::remove_dir_all(directory);
    let event = "usdt:server:server:* { record(args) }";
    run(
        "kestrel",
        &["record", "-o", directory, "-e", event, "--", "server", "20", "4"],
    )
    .success();
    let records = vm_tests::recording::records(directory);
    assert_eq!(records.len(), 80);
    for (number, four) in (0..).zip(records.chunks(4)) {
        let [accepted, asked, answered, closed] = four else {
            panic!()
        };
        for (record, name) in [
            (accepted, "accepted"),
            (asked, "asked"),
            (answered, "answered"),
            (closed, "closed"),
        ] {
            assert!(
                record.event.starts_with("usdt:/") && record.event.ends_with(&format!(":server:{name}")),
                "{record:?}"
            );
            assert_eq!(record.number("number"), number);
        }
        assert_eq!(
            (accepted.text("name"), asked.text("text")),
            ("standard input", "request")
        );
        assert_eq!((answered.number("status"), answered.number("length")), (200, 7));
    }
    // The same lines as the program itself prints.
    let lines = kestrel(&["print", directory]).success();
    let own = shell("KESTREL_TRACEPOINTS='server:*' server 20").err;
    for event in ["server:accepted", "server:asked", "server:closed"] {
        assert_eq!(behind(&lines, event), behind(&own, event), "{event}");
        assert_eq!(behind(&lines, event).len(), 20, "{event}: {lines}");
    }
    let answered = behind(&lines, "server:answered");
    assert!(
        answered[3].starts_with("3 200 7 bytes in ") && answered[3].ends_with(" ns"),
        "{}",
        answered[3]
    );
    // Fields that a handler adds stand behind them.
    let added = "usdt:server:asked { record(args, cpu) }";
    let with = kestrel(&["trace", "-e", added, "--", "server", "1", "1"]).success();
    assert!(
        behind(&with, "server:asked")[0].starts_with("0 request cpu="),
        "{with}"
    );
    let listed = kestrel(&["list", "-v", "usdt:server:server:a*"]).success();
    assert!(
        listed.contains(":server:answered\n    u64 number\n    unsigned short status\n"),
        "{listed}"
    );
    assert!(
        listed.contains("    char[16] name\n") && !listed.contains("closed"),
        "{listed}"
    );
    let wrong = kestrel(&["trace", "-e", "usdt:server:server:answerd", "--", "true"]);
    assert!(wrong.err.contains("server:answered"), "near names: {}", wrong.err);
    let wrong = kestrel(&[
        "trace",
        "-e",
        "usdt:server:answered /args.state == 1/",
        "--",
        "true",
    ]);
    assert!(wrong.err.contains("status"), "near fields: {}", wrong.err);
}

#[test]
fn a_running_program_is_listened_to_by_predicate() {
    // They begin when the event is on, go on for longer than anybody listens, and are ended then.
    let start = || Command::new("server").args(["1000000000", "1"]).spawn().unwrap();
    let (mut server, mut other) = (start(), start());
    let pid = server.id().to_string();
    let event =
        "usdt:server:server:answered /args.number % 100 == 99 && args.status == 200/ { record(args.number) }";
    let printed = kestrel(&[
        "trace",
        "--format",
        "json",
        "-p",
        &pid,
        "--duration",
        "1s",
        "-e",
        event,
    ]);
    for child in [&mut server, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let printed = printed.success();
    let lines = printed.lines().filter(|line| line.contains("\"number\""));
    let records: Vec<Record> = lines.map(vm_tests::recording::record).collect();
    assert!(!records.is_empty(), "{printed}");
    assert!(
        records.iter().all(|record| record.pid == u64::from(server.id())),
        "{printed}"
    );
    let numbers: Vec<i64> = records.iter().map(|record| record.number("number")).collect();
    assert!(numbers.iter().all(|number| number % 100 == 99), "{printed}");
    assert!(numbers.is_sorted_by(|one, next| one < next), "{printed}");
}

#[test]
fn fields_of_every_kind_come_from_a_stripped_program_in_c() {
    let server = server_c();
    let event = format!("usdt:{server}:server:* {{ record(args) }}");
    let directory = "/tmp/server_c.trace";
    let _ = fs::remove_dir_all(directory);
    run(
        "kestrel",
        &["record", "-o", directory, "-e", &event, "--", server, "3", "4"],
    )
    .success();
    let records = vm_tests::recording::records(directory);
    assert_eq!(records.len(), 12);
    let answered = named(&records, ":server:answered");
    let last = answered.last().unwrap();
    assert_eq!(
        (
            last.number("number"),
            last.number("status"),
            last.number("balance")
        ),
        (2, 200, -2)
    );
    assert_eq!(last.fields["load"], serde_json::json!(0.25), "{last:?}");
    assert_eq!(last.fields["steps"], serde_json::json!([1, 2, 65535]), "{last:?}");
    assert_eq!(
        (last.text("body"), &last.fields["ok"]),
        ("tseuqer", &serde_json::json!(true))
    );
    assert_eq!(
        named(&records, ":server:accepted")[0].text("name"),
        "a peer with a l"
    );
    let lines = kestrel(&["print", directory]).success();
    assert_eq!(
        behind(&lines, "server:answered")[1],
        "1 0xc8 \"{0x74,0x73,0x65,0x75,0x71,0x65,0x72}\" 0.25 -1 {1,2,65535} 1"
    );
    assert_eq!(behind(&lines, "server:asked")[2], "2 request of 7 bytes");
    // Predicates over each.
    let event = format!(
        "usdt:{server}:server:asked /str(args.text) == \"request\" && args.length == 7/ {{ @n = count() }}"
    );
    let printed = kestrel(&["trace", "-e", &event, "--", server, "5", "1"]).success();
    assert!(printed.contains("@n: 5"), "{printed}");
}

/// A listener that counts an event of a program; it begins when the event is on, and counts each to the last one.
type Counting = fn(program: &str, events: u64);

fn by_kestrel(program: &str, events: u64) {
    let event = format!("usdt:{program}:server:answered {{ @n = count(); @sum = sum(args.status) }}");
    let printed = kestrel(&["trace", "-e", &event, "--", program, &events.to_string(), "1"]).success();
    assert!(printed.contains(&format!("@n: {events}\n")), "{printed}");
    assert!(
        printed.contains(&format!("@sum: {}\n", 200 * events)),
        "{printed}"
    );
}

fn by_bpftrace(program: &str, events: u64) {
    let probe = format!("usdt:{program}:server:answered {{ @n = count(); @sum = sum(arg1); }}");
    let command = format!("{program} {events} 1");
    let Run { out, err, .. } = run("bpftrace", &["-e", &probe, "-c", &command]);
    assert!(out.contains(&format!("@n: {events}\n")), "{out}{err}");
    assert!(out.contains(&format!("@sum: {}\n", 200 * events)), "{out}{err}");
}

fn by_perf(program: &str, events: u64) {
    let home = format!("/tmp/perf{}", program.replace('/', "-"));
    let line = format!(
        "export HOME={home}; mkdir -p $HOME; perf buildid-cache --add {program} && perf probe -q sdt_server:answered \
         && perf stat -x, -e sdt_server:answered -- {program} {events} 1; perf probe -q -d 'sdt_server:*'"
    );
    let Run { out, err, .. } = shell(&line);
    let counted = err.lines().find(|line| line.contains("sdt_server:answered"));
    assert!(
        counted.is_some_and(|line| line.starts_with(&format!("{events},"))),
        "{out}{err}"
    );
}

/// The example in Rust.
fn server() -> String {
    shell("command -v server").success().trim().to_owned()
}

#[test]
fn kestrel_counts_every_event() {
    by_kestrel(&server(), EVENTS);
}

#[test]
fn bpftrace_counts_every_event() {
    by_bpftrace(&server(), EVENTS);
}

#[test]
fn perf_counts_every_event() {
    by_perf(&server(), EVENTS);
}

#[test]
fn all_count_every_event_of_a_program_in_c() {
    for by in [by_kestrel as Counting, by_bpftrace, by_perf] {
        by(server_c(), EVENTS / 10);
    }
}

#[test]
fn events_of_the_kernel_and_of_processes_are_one_trace_on_one_clock() {
    let events = ["-e", "sched:sched_switch", "-e", "usdt:server:server:answered"];
    let (records, counts) = record_command(&[&["-a"], &events[..]].concat(), &["server", "200", "1"]);
    assert_eq!(counts.lost, 0);
    let answered = named(&records, ":server:answered");
    assert_eq!(answered.len(), 200);
    // A thread that runs on a CPU was switched to there before: so the clock is one, and nothing is out of its order.
    let mut runs: HashMap<u64, i64> = HashMap::new();
    let mut seen = 0;
    for record in &records {
        if record.event == "sched:sched_switch" {
            runs.insert(record.cpu, record.number("next_pid"));
        } else if let Some(running) = runs.get(&record.cpu) {
            seen += 1;
            assert!(
                *running as u64 == record.tid || counts.missed > 0,
                "{record:?} while {running} ran"
            );
        }
    }
    assert!(seen > 0, "it slept before it began, so it was switched to");
}

#[test]
fn spans_of_tracing_are_pairs_with_latencies() {
    let directory = "/tmp/shop.trace";
    let _ = fs::remove_dir_all(directory);
    run(
        "kestrel",
        &[
            "record",
            "-o",
            directory,
            "-e",
            "usdt:shop:tracing:*",
            "--",
            "shop",
            "50",
            "5",
        ],
    )
    .success();
    let records = vm_tests::recording::records(directory);
    let of = |event: &str| named(&records, &format!(":tracing:{event}"));
    for event in ["span_begin", "span_enter", "span_exit", "span_end"] {
        assert_eq!(of(event).len(), 100, "{event}");
    }
    let paid = of("event");
    assert_eq!(paid.len(), 50);
    assert_eq!(
        (paid[7].text("message"), paid[7].text("fields")),
        ("paid", "number=7")
    );
    let (order, pay) = (of("span_begin")[0], of("span_begin")[1]);
    assert_eq!(
        (order.text("name"), order.text("fields"), pay.text("name")),
        ("order", "number=0", "pay")
    );
    assert_eq!(pay.number("parent"), order.number("id"));
    let report = [
        "report",
        directory,
        "--format",
        "json",
        "--latency",
        "span_enter,span_exit,id",
        "--by",
        "name",
    ];
    let printed = kestrel(&report).success();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let rows = printed["latencies"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{printed}");
    assert!(rows.iter().all(|row| row["ns"]["count"] == 50), "{printed}");
}

#[test]
fn the_fork_of_the_documentation_is_the_same_in_user_space() {
    let path = "/sys/kernel/tracing/events/sched/sched_process_fork/format";
    // The number is another, and C's char has a sign in kernels before 6.2.
    let plain = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("ID: "));
        let lines = lines.map(|line| match line.contains("char ") {
            true => line.split("signed:").next().unwrap_or_default(),
            false => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let (kernel, own) = (
        fs::read_to_string(path).unwrap(),
        run("fork", &["--format"]).success(),
    );
    println!("{kernel}");
    // Later kernels have texts of their own length in the place of char[16].
    match kernel.contains("parent_comm[16]") {
        true => assert_eq!(plain(&own), plain(&kernel)),
        false => assert!(kernel.contains("__data_loc char[] parent_comm"), "{kernel}"),
    }
    let printed = run("fork", &["true", "true"]).success();
    let lines = behind(&printed, "sched:sched_process_fork");
    assert_eq!(lines.len(), 2, "{printed}");
    let (before, child) = lines[1].rsplit_once('=').unwrap();
    assert!(
        before.starts_with("comm=fork pid=") && before.ends_with(" child_comm=true child_pid"),
        "{printed}"
    );
    assert!(child.parse::<u32>().is_ok(), "{printed}");
    // The kernel's line of such a process, by tracefs itself, has the same form.
    let traced = "cd /sys/kernel/tracing && mkdir instances/fork && cd instances/fork && echo 1 > events/sched/sched_process_fork/enable \
                  && fork true > /dev/null; cat trace; cd ..; rmdir fork";
    let Run { out, err, .. } = shell(traced);
    let of_kernel = behind(&out, "sched_process_fork");
    let shape = |line: &str| -> Vec<String> {
        line.split(' ')
            .map(|word| word.split('=').next().unwrap_or_default().to_owned())
            .collect()
    };
    let kernels = of_kernel
        .iter()
        .find(|line| line.starts_with("comm=fork "))
        .unwrap_or_else(|| panic!("{out}{err}"));
    assert_eq!(shape(kernels), shape(lines[0]));
}

/// Puts a program of the guest where the lines of a page run it as `./NAME`.
fn copy_program(page: &Page, program: &str) {
    let found = run("sh", &["-c", &format!("command -v {program}")]).success();
    page.copy(found.trim(), program);
}

#[test]
fn commands_of_the_page_about_tracepoints_run() {
    let page = Page::of("tracepoints.md");
    copy_program(&page, "server");
    page.run(4);
}

#[test]
fn commands_of_the_page_about_tracepoints_in_detail_run() {
    let page = Page::of("tracepoints-in-detail.md");
    copy_program(&page, "shop");
    page.run(4);
}
