//! `kestrel stat` in guests: counts against programs that do things a known number of times, against perf's of the same run, and against one another.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use vm_tests::recording::missed;
use vm_tests::{getpriority_calls, run, skip, until};

const CALLS: u64 = 5_000;
const GETPPID: &str = "syscalls:sys_enter_getppid";
const GETPRIORITY: &str = "syscalls:sys_enter_getpriority";

/// Rows of columns, and what was said beside them.
struct Rows {
    rows: Vec<Vec<String>>,
    messages: String,
}

impl Rows {
    /// Counts while a command runs, with these options.
    fn of(options: &[&str], command: &[&str]) -> Self {
        let file = "/tmp/stat.counts";
        let mut arguments = vec!["stat", "-x", "\t", "-o", file];
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(command);
        let done = run("kestrel", &arguments);
        assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
        Self {
            rows: read(Path::new(file)),
            messages: done.err,
        }
    }

    /// The sum of an event's rows, whose counts stand at this place.
    fn sum(&self, at: usize, event: &str) -> u64 {
        let of_event = self.rows.iter().filter(|row| row[at + 2] == event);
        // No task of the command ran in that interval.
        let ran = of_event.filter(|row| row[at] != "<not counted>");
        ran.map(|row| row[at].parse::<u64>().unwrap()).sum()
    }

    /// The count of an event in an interval that is shown as text, where it has no unit.
    fn shown(&self, event: &str) -> u64 {
        let row = self.rows.iter().find(|row| row.contains(&event.to_owned()));
        let row = row.unwrap_or_else(|| panic!("{event}: {:?}", self.rows));
        row[1].parse::<f64>().unwrap() as u64
    }

    /// All of them, or what is missing was said.
    #[track_caller]
    fn is_all(&self, counted: u64, of: u64) {
        let explained = counted <= of && counted + missed(&self.messages) >= of;
        assert!(explained, "{counted} of {of}: {}\n{:?}", self.messages, self.rows);
    }
}

fn read(file: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

fn calls(threads: &str) -> [String; 4] {
    ["calls", "getppid", &CALLS.to_string(), threads].map(str::to_owned)
}

fn counted_calls(options: &[&str], threads: &str) -> Rows {
    let command = calls(threads);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    Rows::of(options, &command)
}

#[test]
fn calls_are_counted_to_the_last_one_however_they_are_grouped() {
    let one = counted_calls(&["-e", GETPPID], "1");
    one.is_all(one.sum(0, GETPPID), CALLS);
    let among = counted_calls(&["-e", "syscalls:sys_enter_get*"], "1");
    among.is_all(among.sum(0, GETPPID), CALLS);
    let by_cpu = counted_calls(&["--per-cpu", "-e", GETPPID], "4");
    by_cpu.is_all(by_cpu.sum(1, GETPPID), 4 * CALLS);
    let by_thread = counted_calls(&["--per-thread", "-e", GETPPID], "4");
    by_thread.is_all(by_thread.sum(1, GETPPID), 4 * CALLS);
    if missed(&by_thread.messages) == 0 {
        assert_eq!(by_thread.rows.len(), 4, "{:?}", by_thread.rows);
    }
    let by_value = counted_calls(&["--by", "comm", "-e", GETPPID], "2");
    by_value.is_all(by_value.sum(1, GETPPID), 2 * CALLS);
    assert!(
        by_value.rows.iter().all(|row| row[0] == "calls"),
        "{:?}",
        by_value.rows
    );
}

#[test]
fn functions_and_returns_are_counted_where_perf_needs_a_probe_first() {
    let events = "kprobe:ksys_read,kretprobe:ksys_read";
    let count = CALLS.to_string();
    let reads = Rows::of(
        &["-e", &format!("{events} /comm == \"calls\"/")],
        &["calls", "read", &count],
    );
    for event in events.split(',') {
        let name = format!("{event} /comm == \"calls\"/");
        let counted = reads.sum(0, &name);
        // The loader reads the program and its libraries.
        assert!(
            counted + missed(&reads.messages) >= CALLS && counted < CALLS + 100,
            "{counted}: {:?} {}",
            reads.rows,
            reads.messages
        );
    }
}

#[test]
fn predicates_filter_counts() {
    let none = format!("{GETPPID} /pid == 1/");
    let all = format!("{GETPPID} /comm == \"calls\"/");
    let rows = counted_calls(&["-a", "-e", &none, "-e", &all], "2");
    assert_eq!(rows.sum(0, &none), 0);
    rows.is_all(rows.sum(0, &all), 2 * CALLS);
}

#[test]
fn intervals_add_up_to_the_calls() {
    let rows = counted_calls(&["-I", "5", "-e", GETPPID, "-e", "page-faults"], "2");
    rows.is_all(rows.sum(1, GETPPID), 2 * CALLS);
    let faults = counted_calls(&["-e", "page-faults"], "2");
    let (parts, whole) = (rows.sum(1, "page-faults"), faults.sum(0, "page-faults"));
    assert!(
        parts > 0 && parts.abs_diff(whole) < 50,
        "{parts} in intervals, {whole} at once"
    );
}

#[test]
fn several_runs_have_a_mean_and_its_deviation() {
    let rows = counted_calls(&["-r", "3", "-e", GETPPID], "1");
    let mean = rows.sum(0, GETPPID);
    assert!(
        mean <= CALLS && mean + missed(&rows.messages) >= CALLS,
        "{:?}",
        rows.rows
    );
    assert!(rows.rows[0][3].ends_with('%'), "{:?}", rows.rows);
}

#[test]
fn software_counters_of_all_cpus_are_those_of_each() {
    let events = "context-switches,cpu-clock,sched:sched_switch";
    let rows = counted_calls(&["-a", "--per-cpu", "-e", events], "2");
    let cpus = fs::read_dir("/sys/devices/system/cpu").unwrap().flatten();
    let cpus = cpus.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .trim_start_matches("cpu")
            .parse::<u32>()
            .is_ok()
    });
    assert_eq!(rows.rows.len(), 3 * cpus.count(), "{:?}", rows.rows);
    // The kernel's counter and our count of the tracepoint begin and end a moment apart.
    for cpu in ["CPU0", "CPU1"] {
        let count = |event: &str| -> u64 {
            let row = rows.rows.iter().find(|row| row[0] == cpu && row[3] == event);
            row.map_or(0, |row| row[1].parse().unwrap())
        };
        let (switches, traced) = (count("context-switches"), count("sched:sched_switch"));
        let difference = switches.abs_diff(traced + missed(&rows.messages));
        assert!(difference <= 50 + switches / 5, "{cpu}: {switches} and {traced}");
    }
}

#[test]
fn events_that_the_processor_lacks_do_not_stop_the_other_counts() {
    let rows = counted_calls(&["-e", "{cycles,instructions}", "-e", GETPPID], "1");
    assert_eq!(rows.rows.len(), 3, "{:?}", rows.rows);
    rows.is_all(rows.sum(0, GETPPID), CALLS);
    for row in &rows.rows[..2] {
        let known = row[0] == "<not supported>" || row[0] == "<not counted>" || row[0].parse::<u64>().is_ok();
        assert!(known, "{row:?}");
    }
}

/// A program that waits until it is let go.
fn waiting(script: &str) -> Child {
    let script = format!("read go; {script}");
    let child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn();
    child.unwrap()
}

/// Counts beside a program until that has ended, and reads the rows.
fn beside(options: &[&str], mut child: Child) -> Rows {
    let file = Path::new("/tmp/stat.beside");
    let counting = counting(file, options);
    drop(child.stdin.take());
    child.wait().unwrap();
    finish(counting, file)
}

/// Begins to count. The title of intervals is written as soon as it counts; the interval never ends.
fn counting(file: &Path, options: &[&str]) -> Child {
    let _ = fs::remove_file(file);
    let counting = Command::new("kestrel")
        .args(["stat", "-I", "100000000", "-o", file.to_str().unwrap()])
        .args(options)
        .stderr(Stdio::piped())
        .spawn();
    until("counting", || {
        fs::read_to_string(file).is_ok_and(|text| text.starts_with('#'))
    });
    counting.unwrap()
}

/// The rows of what was counted, which ends by itself or was ended.
fn finish(counting: Child, file: &Path) -> Rows {
    let done = counting.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{printed}");
    let text = fs::read_to_string(file).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| {
        line.split_whitespace()
            .map(|word| word.replace(',', ""))
            .collect()
    });
    Rows {
        rows: rows.collect(),
        messages: printed,
    }
}

#[test]
fn a_process_alone_is_counted_until_it_ends() {
    let program = waiting(&format!("exec calls getppid {CALLS} 2"));
    let pid = program.id().to_string();
    let rows = beside(
        &["-p", &pid, "-e", &format!("{GETPPID},page-faults,task-clock")],
        program,
    );
    let of = |event: &str| rows.shown(event);
    // By the kernel's counters, which the second thread inherits.
    assert_eq!(of(GETPPID), 2 * CALLS, "{:?} {}", rows.rows, rows.messages);
    assert!(of("page-faults") > 10, "{:?}", rows.rows);
    assert!(of("task-clock") > 0, "{:?}", rows.rows);
}

/// Threads that come all the time, until this is dropped.
struct Churn {
    goes_on: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Churn {
    fn start() -> Self {
        let goes_on = Arc::new(AtomicBool::new(true));
        let until = Arc::clone(&goes_on);
        let churn = move || {
            while until.load(Relaxed) {
                // Each is made by the one before it: none of them is there for long.
                thread::spawn(|| thread::spawn(|| {}).join().unwrap())
                    .join()
                    .unwrap();
            }
        };
        Self {
            goes_on,
            thread: Some(thread::spawn(churn)),
        }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.goes_on.store(false, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn threads_that_come_while_counting_begins_are_counted() {
    let own = std::process::id().to_string();
    let file = Path::new("/tmp/stat.churn");
    for churns in [false, true] {
        let churn = churns.then(Churn::start);
        let counting = counting(file, &["-p", &own, "-e", GETPRIORITY]);
        drop(churn);
        let threads: Vec<_> = (0..4)
            .map(|_| thread::spawn(|| getpriority_calls(CALLS).unwrap()))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        vm_tests::shell(&format!("kill -INT {}", counting.id())).success();
        let rows = finish(counting, file);
        rows.is_all(rows.shown(GETPRIORITY), 4 * CALLS);
    }
}

#[test]
fn counters_behind_several_events_of_one_text_keep_their_names() {
    let texts = [
        "minor-faults",
        "syscalls:sys_enter_getp*,syscalls:sys_enter_getuid /pid > 0/",
        "page-faults",
        "{context-switches,faults}",
        "syscalls:sys_enter_getppid /pid == 1/",
        "task-clock",
    ];
    let options: Vec<&str> = texts.iter().flat_map(|text| ["-e", text]).collect();
    let rows = counted_calls(&options, "1");
    let names: Vec<&str> = rows.rows.iter().map(|row| row[2].as_str()).collect();
    let place = |name: &str| {
        names
            .iter()
            .position(|known| *known == name)
            .unwrap_or_else(|| panic!("{name}: {names:?}"))
    };
    // Rows in the order of the request.
    let order = [
        "minor-faults",
        "syscalls:sys_enter_getppid /pid > 0/",
        "syscalls:sys_enter_getuid /pid > 0/",
        "page-faults",
        "context-switches",
        "faults",
        "syscalls:sys_enter_getppid /pid == 1/",
        "task-clock",
    ]
    .map(place);
    assert!(order.is_sorted(), "{names:?}");
    rows.is_all(rows.sum(0, "syscalls:sys_enter_getppid /pid > 0/"), CALLS);
    assert_eq!(rows.sum(0, "syscalls:sys_enter_getppid /pid == 1/"), 0);
    let faults = rows.sum(0, "page-faults");
    assert_eq!(faults, rows.sum(0, "faults"), "{:?}", rows.rows);
    let minor = rows.sum(0, "minor-faults");
    assert!(minor > 10 && minor <= faults, "{:?}", rows.rows);
    assert_eq!(rows.rows[place("task-clock")][1], "msec", "{:?}", rows.rows);
}

#[test]
fn a_cgroup_is_counted_with_those_below_it() {
    if !Path::new("/sys/fs/cgroup/cgroup.procs").exists() {
        return skip("no cgroup2");
    }
    for name in ["/sys/fs/cgroup/stat", "/sys/fs/cgroup/stat/below"] {
        let _ = fs::create_dir(name);
        // As systemd does: perf's controller comes with any other.
        fs::write(Path::new(name).with_file_name("cgroup.subtree_control"), "+pids").unwrap();
    }
    let command =
        |group: &str| format!("echo $$ > /sys/fs/cgroup/{group}/cgroup.procs && exec calls getppid {CALLS}");
    let script = format!(
        "sh -c '{}'; sh -c '{}'; calls getppid {CALLS}",
        command("stat"),
        command("stat/below")
    );
    for (group, runs) in [("stat", 2), ("stat/below", 1)] {
        let events = format!("{GETPPID} /comm == \"calls\"/");
        let rows = Rows::of(
            &["-G", group, "-e", &events, "-e", "page-faults"],
            &["sh", "-c", &script],
        );
        rows.is_all(rows.sum(0, &events), runs * CALLS);
        assert!(rows.sum(0, "page-faults") > 10, "{:?}", rows.rows);
        // By the kernel's counters; shells ask for their parent, too.
        let rows = Rows::of(&["-G", group, "-e", GETPPID], &["sh", "-c", &script]);
        let counted = rows.sum(0, GETPPID);
        assert!(
            counted >= runs * CALLS && counted < runs * CALLS + 20,
            "{group}: {:?}",
            rows.rows
        );
        // A predicate asks for the group itself, without those below.
        let own = format!("{GETPPID} /comm == \"calls\" && cgroup == cgroupid(\"/sys/fs/cgroup/{group}\")/");
        let rows = Rows::of(&["-e", &own], &["sh", "-c", &script]);
        rows.is_all(rows.sum(0, &own), CALLS);
    }
    let wrong = run("kestrel", &["stat", "-G", "statt", "--", "true"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(wrong.err.contains("did you mean stat?"), "{}", wrong.err);
    for name in ["/sys/fs/cgroup/stat/below", "/sys/fs/cgroup/stat"] {
        until("the cgroup is empty", || fs::remove_dir(name).is_ok());
    }
}

#[test]
fn counts_are_perfs_of_the_same_run() {
    if run("sh", &["-c", "command -v perf"]).code != Some(0) {
        return skip("no perf");
    }
    let events = [GETPPID, "sched:sched_process_exit", "sched:sched_process_fork"];
    let list = events.join(",");
    let count = CALLS.to_string();
    let perf = [
        "perf",
        "stat",
        "-x",
        "\t",
        "-o",
        "/tmp/stat.perf",
        "-e",
        &list,
        "--",
        "calls",
        "getppid",
        &count,
        "3",
    ];
    let rows = Rows::of(&["-e", &list], &perf);
    let perfs: BTreeMap<String, u64> = read(Path::new("/tmp/stat.perf"))
        .into_iter()
        .map(|row| (row[2].clone(), row[0].parse().unwrap()))
        .collect();
    assert_eq!(perfs[GETPPID], 3 * CALLS);
    rows.is_all(rows.sum(0, GETPPID), perfs[GETPPID]);
    for event in &events[1..] {
        // perf's own process forks and ends, too.
        let (ours, theirs) = (rows.sum(0, event), perfs[*event]);
        assert!(
            ours >= theirs && ours - theirs <= 4,
            "{event}: {ours} and {theirs}"
        );
    }
}

#[test]
fn a_tracepoint_alone_is_counted_as_programs_count_it() {
    // By CPU, with the kernel's counter; by a value, with a program.
    for threads in ["1", "4"] {
        let calls = CALLS * threads.parse::<u64>().unwrap();
        let plain = counted_calls(&["-e", GETPPID], threads);
        assert_eq!(
            plain.sum(0, GETPPID),
            calls,
            "{:?} {}",
            plain.rows,
            plain.messages
        );
        let of_all = counted_calls(&["-a", "--per-cpu", "-e", GETPPID], threads);
        let counted = of_all.sum(1, GETPPID);
        // Other processes ask for their parents, too.
        assert!(counted >= calls && counted < calls + 50, "{:?}", of_all.rows);
        let by_value = counted_calls(&["--by", "comm", "-e", GETPPID], threads);
        by_value.is_all(by_value.sum(1, GETPPID), calls);
    }
    let missing = run(
        "kestrel",
        &["stat", "-e", "syscalls:sys_enter_getpid_", "--", "true"],
    );
    assert!(
        missing.code != Some(0) && missing.err.contains("sys_enter_getpid"),
        "{missing:?}"
    );
}

#[test]
fn counters_of_units_are_perfs() {
    let tsc = Path::new("/sys/bus/event_source/devices/msr/events/tsc");
    if !tsc.exists() {
        return skip("no msr unit");
    }
    let rows = counted_calls(&["-e", "msr/tsc/,msr/event=0/,page-faults"], "1");
    let (named, by_number) = (rows.sum(0, "msr/tsc/"), rows.sum(0, "msr/event=0/"));
    assert!(
        named > 0 && named.abs_diff(by_number) < named / 2,
        "{:?}",
        rows.rows
    );
    let wrong = run("kestrel", &["stat", "-e", "msr/tcs/", "--", "true"]);
    assert!(
        wrong.code != Some(0) && wrong.err.contains("did you mean tsc"),
        "{wrong:?}"
    );
}

#[test]
fn figures_go_where_the_shell_has_opened_a_file() {
    let line = "kestrel stat -x, --log-fd 3 -e cs -- true 3>/tmp/stat.fd; kestrel stat -x, -o /tmp/stat.fd --append -e cs -- true";
    vm_tests::shell(line).success();
    let text = fs::read_to_string("/tmp/stat.fd").unwrap();
    assert_eq!(
        text.lines().filter(|line| line.contains(",cs,")).count(),
        2,
        "{text}"
    );
}
