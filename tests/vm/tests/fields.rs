//! Fields of tracepoints: the same events read raw, read from the kernel's formatted entry, and printed by tracefs must agree.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use vm_tests::{
    TRACEFS,
    comparison::{Comparison, compare},
    kestrel,
    recording::{Counts, Record, Recorder, now},
    run, shell,
};

/// The tables of rules themselves, so that a new row is tested from its first day.
const RULES: &str = concat!(
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/interrupts.rs"),
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/memory.rs"),
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/network.rs"),
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/scheduler.rs"),
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/security.rs"),
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/storage.rs"),
    include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/timers.rs"),
);

/// The list of the tables of rules: a table that is not among those above fails the test.
const TABLES: &str = include_str!("../../../crates/catalog/src/catalog/tracepoint/rules/mod.rs");

/// Events whose entries are their arguments.
const PLAIN: &str = include_str!("../../../crates/catalog/src/catalog/tracepoint/plain.rs");

/// Groups of events of memory. They come by the thousand: beside them, the other classic recording would miss what happens in interrupts while
/// one of its programs runs (the kernel lets only one at a time run on a CPU).
const MEMORY: &[&str] = &[
    "kmem",
    "memcg",
    "maple_tree",
    "filemap",
    "pagemap",
    "mmap",
    "mmap_lock",
    "percpu",
];

/// System calls of the workload, entries and returns.
const CALLS: &[&str] = &[
    "openat",
    "read",
    "write",
    "close",
    "mmap",
    "munmap",
    "newfstatat",
    "getppid",
    "execve",
    "clone",
    "wait4",
    "clock_nanosleep",
    "exit_group",
    "dup2",
    "ioctl",
    "pipe2",
    "rt_sigaction",
    "brk",
    "sched_setaffinity",
];

/// Events that the workload must bring about, or the test says nothing.
const FIRED: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_waking",
    "sched:sched_process_exit",
    "sched:sched_stat_runtime",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq:softirq_raise",
    "timer:hrtimer_cancel",
    "timer:timer_cancel",
    "power:cpu_idle",
    "exceptions:page_fault_user",
    "workqueue:workqueue_execute_start",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
];

/// Of those, events of memory.
const FIRED_IN_MEMORY: &[&str] = &[
    "kmem:kfree",
    "kmem:kmalloc",
    "kmem:kmem_cache_alloc",
    "kmem:kmem_cache_free",
    "kmem:mm_page_alloc",
    "kmem:mm_page_free",
    "kmem:mm_page_free_batched",
    "maple_tree:ma_read",
    "maple_tree:ma_write",
    "mmap:vm_unmapped_area",
    "pagemap:mm_lru_insertion",
];

/// Of those whose entries are their arguments.
const FIRED_PLAIN: &[&str] = &[
    "rcu:rcu_utilization",
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    "tlb:tlb_flush",
];

/// The events that a table names and this kernel has: its texts of the form `group:name`.
fn named(table: &str) -> Vec<String> {
    let is_event = |text: &&str| {
        let word =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        text.split_once(':')
            .is_some_and(|(group, name)| word(group) && word(name))
    };
    // Comments may have a quotation mark alone.
    let rows = table.lines().filter(|line| !line.trim_start().starts_with("//"));
    let texts = rows.flat_map(|line| line.split('"').skip(1).step_by(2));
    let events = texts.filter(is_event).map(str::to_owned);
    let names: BTreeSet<String> = events.filter(|name| exists(name)).collect();
    assert!(names.len() > 10, "{names:?}");
    names.into_iter().collect()
}

fn is_of_memory(event: &str) -> bool {
    MEMORY.iter().any(|group| event.split(':').next() == Some(group))
}

fn exists(event: &str) -> bool {
    Path::new(TRACEFS)
        .join("events")
        .join(event.replace(':', "/"))
        .exists()
}

/// Processes, files, pipes, timers, faults, memory; so many times.
fn workload(times: usize) {
    for _ in 0..times {
        let run =
            shell("for i in 1 2 3; do /bin/cat /proc/version | /bin/wc -c; done; echo x > /dev/kmsg; sync");
        assert_eq!(run.code, Some(0), "{}", run.err);
        std::thread::sleep(Duration::from_millis(3));
    }
    let mut file = fs::File::create("/tmp/work").unwrap();
    file.write_all(&vec![7; 300_000]).unwrap();
    let mut back = Vec::new();
    fs::File::open("/tmp/work")
        .unwrap()
        .read_to_end(&mut back)
        .unwrap();
    vm_tests::getppid_calls(20);
    let threads: Vec<_> = (0..4)
        .map(|n| std::thread::spawn(move || std::thread::sleep(Duration::from_millis(n))))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    cancel_timers(10);
    move_about();
}

/// Waits with a limit that is not reached, so many times: the kernel cancels the timer of each.
fn cancel_timers(times: usize) {
    for _ in 0..times {
        let (send, receive) = std::sync::mpsc::channel();
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            send.send(()).unwrap();
        });
        receive.recv_timeout(Duration::from_secs(60)).unwrap();
        sender.join().unwrap();
    }
}

/// Goes from CPU to CPU.
fn move_about() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let all = sched_getaffinity(None).unwrap();
    for n in 0..6 {
        let mut one = CpuSet::new();
        one.set(n % 2);
        if all.is_set(n % 2) {
            sched_setaffinity(None, &one).unwrap();
        }
    }
    sched_setaffinity(None, &all).unwrap();
}

/// The options that name events.
fn options(via: &str, events: &[String]) -> Vec<String> {
    // Of two recorders each would leave out its own wakeups, and record the other's.
    let mut options = ["-a", "--include-self", "--via", via, "--buffer-size", "16M"]
        .map(str::to_owned)
        .to_vec();
    for event in events {
        // The recorders would record one another without end.
        let filter = if event.contains("sys") {
            " /comm != \"kestrel\"/"
        } else {
            ""
        };
        options.extend(["-e".to_owned(), format!("{event}{filter}")]);
    }
    options
}

/// Says which ways were taken instead of those that were meant; a rule that the verifier refuses is a fault.
fn tell_detours(recorder: &Recorder) {
    for line in recorder.messages().lines().filter(|line| line.starts_with("  ")) {
        println!("detour: {line}");
        assert!(
            !line.contains("formatted entry") || !line.contains("refused"),
            "a rule that the verifier refuses: {line}"
        );
    }
}

/// More events than these are not all attached in both ways: attaching costs more than a look at which of them come.
const MANY: usize = 100;

/// Events that the workload causes, among them those that it must: all of them are loaded raw, and only these are worth a second way.
fn fired(events: &[String], must: &[&str]) -> Vec<String> {
    let raw = Recorder::start("fired", &options("auto", events));
    few_without_rule(&raw.plan(), events);
    tell_detours(&raw);
    workload(3);
    let directory = raw.directory.clone();
    raw.interrupt();
    let ended = raw.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // Records count by event; the second run checks their fields.
    let report = kestrel(&["report", "--format", "json", &directory]).success();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let rows = report["counted"].as_array().unwrap().iter();
    let came = rows.filter(|row| row["recorded"].as_u64() > Some(0));
    let seen: BTreeSet<&str> = came.filter_map(|row| row["event"].as_str()).collect();
    assert!(!seen.is_empty(), "{report}");
    let wanted = |event: &&String| seen.contains(event.as_str()) || must.contains(&event.as_str());
    events.iter().filter(wanted).cloned().collect()
}

/// Records the events in both ways at the same time.
fn both_ways(events: &[String]) -> [(Vec<Record>, Counts); 2] {
    let mut classic = Recorder::spawn("classic", &options("classic", events));
    let raw = Recorder::start("raw", &options("auto", events));
    classic.wait_until_attached();
    tell_detours(&raw);
    // The first that was attached has recorded how the other one was.
    let both = now();
    // Of memory's events each time brings thousands.
    let of_memory = events.iter().all(|event| is_of_memory(event));
    workload(if of_memory { 1 } else { 3 });
    raw.interrupt();
    classic.interrupt();
    let (raw, raw_counts, printed) = raw.stop_interrupted_since(both);
    let (classic, classic_counts, _) = classic.stop_interrupted_since(both);
    assert_eq!((raw_counts.lost, classic_counts.lost), (0, 0), "{printed}");
    println!(
        "{} raw and {} classic records; missed: {} and {}",
        raw.len(),
        classic.len(),
        raw_counts.missed,
        classic_counts.missed
    );
    [(raw, raw_counts), (classic, classic_counts)]
}

fn judge(event: &str, found: &Comparison, raw: &Counts, classic: &Counts) {
    println!("{event}: {found:?}");
    if let Some(different) = &found.different {
        panic!("{event} differs, raw then classic:\n   {different}");
    }
    // Classic programs share one guard per CPU: what one of them hides from another is in the raw recording only.
    assert!(
        found.left <= classic.may_lack(found.equal) && found.right <= raw.may_lack(found.equal),
        "{event}: raw then classic: {found:?}, {raw:?}, {classic:?}"
    );
}

/// Somebody may collect a process that ended (`Z`, then `X`) between the two looks at it.
fn of_the_dead(mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        if let Some(state) = record.fields.get_mut("prev_state")
            && *state == "X"
        {
            *state = "Z".into();
        }
    }
    records
}

fn check(events: &[String], must: &[&str]) {
    let mut silent: BTreeSet<&str> = events.iter().map(String::as_str).collect();
    // A rare event may be hidden from the one or the other: so it gets another chance.
    for _ in 0..3 {
        let [(raw, raw_counts), (classic, classic_counts)] = both_ways(events);
        let found = compare(&of_the_dead(raw), &of_the_dead(classic));
        for (event, comparison) in &found {
            judge(event, comparison, &raw_counts, &classic_counts);
            if comparison.equal > 0 {
                silent.remove(event.as_str());
            }
        }
        println!("did not fire: {silent:?}");
        if must.iter().all(|event| !silent.contains(event)) {
            return;
        }
    }
    panic!("of {must:?} some did not fire: {silent:?}");
}

/// Most of the events are read by their rules; where the running kernel's entries do not fit a rule, the classic way serves.
fn few_without_rule(plan: &str, events: &[String]) {
    let mut name = "";
    let (mut planned, mut without) = (0, Vec::new());
    for line in plan.lines() {
        if !line.starts_with(' ') {
            name = line.split(' ').next().unwrap_or_default();
        } else if let Some(way) = line.trim_start().strip_prefix("attach: ") {
            planned += 1;
            if way.starts_with("tracepoint ") {
                without.push(name);
            }
        }
    }
    println!("classic on this kernel: {without:?}");
    assert!(planned > 0, "{plan}");
    assert!(without.len() * 3 < events.len(), "{without:?}");
}

/// Most of the events are read by their rules, and both ways say the same.
fn check_rules(events: &[String], must: &[&str]) {
    // Where there are many, most of them do not come here.
    if events.len() > MANY {
        let fired = fired(events, must);
        println!("{} of {} events fired", fired.len(), events.len());
        check(&fired, must);
    } else {
        let mut arguments = vec!["record", "--dry-run", "-a"];
        for event in events {
            arguments.extend(["-e", event]);
        }
        few_without_rule(&run("kestrel", &arguments).success(), events);
        check(events, must);
    }
}

#[test]
fn rules_read_what_the_formatted_entry_says() {
    let tables = RULES.matches("pub(super) const ROWS").count();
    assert_eq!(tables, TABLES.matches("::ROWS").count(), "tables of rules");
    let mut events = named(RULES);
    events.retain(|event| !is_of_memory(event));
    check_rules(&events, FIRED);
}

#[test]
fn rules_of_memory_read_what_the_formatted_entry_says() {
    let mut events = named(RULES);
    events.retain(|event| is_of_memory(event));
    check_rules(&events, FIRED_IN_MEMORY);
}

#[test]
fn events_that_are_their_arguments_read_what_the_formatted_entry_says() {
    check_rules(&named(PLAIN), FIRED_PLAIN);
}

#[test]
fn system_calls_read_raw_are_what_the_formatted_entry_says() {
    let names = CALLS.iter().flat_map(|call| {
        [
            format!("syscalls:sys_enter_{call}"),
            format!("syscalls:sys_exit_{call}"),
        ]
    });
    let mut events: Vec<String> = names.filter(|name| exists(name)).collect();
    events.extend(["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"].map(str::to_owned));
    assert!(events.len() > 20);
    check(
        &events,
        &[
            "syscalls:sys_enter_openat",
            "syscalls:sys_exit_openat",
            "syscalls:sys_enter_getppid",
            "syscalls:sys_exit_read",
            "raw_syscalls:sys_enter",
            "raw_syscalls:sys_exit",
        ],
    );
}

#[test]
fn lines_of_tracefs_say_the_same() {
    let instance = Instance::new("kestrel_test");
    let events = ["sched:sched_switch", "sched:sched_wakeup", "irq:softirq_entry"].map(str::to_owned);
    for way in ["raw", "classic"] {
        instance.begin(&events);
        let recorder = Recorder::start("beside", &options(way, &events));
        workload(3);
        recorder.interrupt();
        let (ours, counts, _) = recorder.stop_interrupted();
        // Older kernels do not count what an interrupt brings about while a program runs that reads a formatted entry.
        let hides = way == "classic" && vm_tests::version() < (6, 6);
        assert_eq!(counts.uncounted, hides, "{way}: {counts:?}");
        let theirs = instance.end(&ours);
        let ours: Vec<Record> = ours.iter().map(as_tracefs).collect();
        for (event, found) in compare(&of_the_dead(ours), &of_the_dead(theirs)) {
            println!("{way} {event}: {found:?}");
            if let Some(different) = found.different {
                panic!("{way} {event} differs, ours then tracefs:\n   {different}");
            }
            assert!(found.equal > 20, "{way} {event}: {found:?}");
            assert!(
                found.left <= 2 + found.equal / 20 && found.right <= counts.may_lack(found.equal),
                "{way} {event}: ours then tracefs: {found:?}, {counts:?}"
            );
        }
    }
}

/// A trace instance of its own; gone at the end.
struct Instance(PathBuf);

impl Instance {
    fn new(name: &str) -> Self {
        let path = Path::new(TRACEFS).join("instances").join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn begin(&self, events: &[String]) {
        fs::write(self.0.join("trace_clock"), "mono").unwrap();
        fs::write(self.0.join("trace"), "").unwrap();
        for event in events {
            let enable = self.0.join("events").join(event.replace(':', "/")).join("enable");
            fs::write(enable, "1").unwrap();
        }
    }

    /// Records of the events that `like` knows, with the same fields, all as text.
    fn end(&self, like: &[Record]) -> Vec<Record> {
        fs::write(self.0.join("events/enable"), "0").unwrap();
        let text = fs::read_to_string(self.0.join("trace")).unwrap();
        text.lines()
            .filter_map(|line| tracefs_record(line, like))
            .collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// `  comm-12   [001] d..2.   12.345678: sched_switch: prev_comm=a prev_pid=1 … ==> next_comm=…`
fn tracefs_record(line: &str, like: &[Record]) -> Option<Record> {
    let (task, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (time, rest) = rest.split_once(": ")?;
    let (name, text) = rest.split_once(": ")?;
    let kind = like.iter().find(|r| r.event.rsplit(':').next() == Some(name))?;
    let seconds: f64 = time.split_whitespace().last()?.parse().ok()?;
    let mut fields = kind.fields.clone();
    for (name, value) in &mut fields {
        let start = text.find(&format!("{name}="))? + name.len() + 1;
        let end = kind
            .fields
            .keys()
            .filter_map(|other| text[start..].find(&format!(" {other}=")))
            .chain(text[start..].find(" ==> "))
            .chain(text[start..].find(" [action"))
            .min()
            .unwrap_or(text.len() - start);
        *value = text[start..start + end].trim().into();
    }
    Some(Record {
        time: (seconds * 1e9) as u64,
        cpu: cpu.parse().ok()?,
        tid: task.rsplit('-').next()?.trim().parse().ok()?,
        pid: 0,
        event: kind.event.clone(),
        fields,
    })
}

/// Our record as tracefs words it: everything is text, a running task is `R`, a softirq is its number.
fn as_tracefs(record: &Record) -> Record {
    const SOFTIRQS: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
    ];
    let mut record = record.clone();
    for (name, value) in &mut record.fields {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let text = match (name.as_str(), text.as_str()) {
            ("prev_state", "0x0") => "R".to_owned(),
            ("prev_state", "0x100") => "R+".to_owned(),
            ("vec", word) => SOFTIRQS
                .iter()
                .position(|s| *s == word)
                .map_or_else(|| word.to_owned(), |n| n.to_string()),
            (name, number) if name.ends_with("cpu") => format!("{:03}", number.parse::<u32>().unwrap_or(999)),
            _ => text,
        };
        *value = text.into();
    }
    record
}
