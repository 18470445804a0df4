//! The library `kestrel::probe`: its examples as they are, and what they do not show: switches, arrays, refusals, panics.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::kernel::Host;
use kestrel::probe::{self, Hit, Jprobe, Kprobe, Kretprobe, Phase, Probe, Registration};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vm_tests::bare::program;
use vm_tests::recording::{MISSED, count};
use vm_tests::run;

/// The hexadecimal number behind a word, each time it comes.
fn numbers(text: &str, word: &str) -> Vec<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let found = words.windows(2).filter(|pair| pair[0] == word);
    found
        .map(|pair| u64::from_str_radix(pair[1], 16).unwrap())
        .collect()
}

/// Of the last lines of an example: what did not come to it.
fn missed(message: &str) -> u64 {
    let missed = message
        .lines()
        .filter(|line| MISSED.iter().any(|how| line.contains(how)));
    missed.filter_map(count).sum()
}

#[test]
fn the_example_of_registers() {
    let message = run("probe_registers", &["vfs_read", "push"]).success();
    let (pairs, alone) = (
        message.matches("before in").count(),
        message.matches("after in").count(),
    );
    assert!((1..=3).contains(&pairs) && alone <= 3, "{message}");
    assert!(
        pairs as u64 + missed(&message) >= 3 && alone as u64 + missed(&message) >= 3,
        "{message}"
    );
    if pairs == 3 && alone == 3 {
        let sp = numbers(&message, "sp");
        for pair in sp.chunks(2) {
            assert_eq!(pair[0] - 8, pair[1], "a push: {message}");
        }
        assert_eq!(sp.len(), 6, "{message}");
        assert!(message.contains("flags "), "{message}");
    }
}

#[test]
fn the_example_of_fork_and_exec() {
    let message = run("probe_processes", &["sh", "-c", "true; sh -c :; sh -c :; true"]).success();
    let forked = message.lines().filter(|line| line.contains("fork -> ")).count();
    let executed: Vec<&str> = message.lines().filter(|line| line.contains(": exec ")).collect();
    let shells = executed.iter().filter(|line| !line.ends_with("/true")).count();
    assert!(forked as u64 + missed(&message) >= 3, "{message}");
    assert!(
        (shells as u64 + missed(&message)) >= 3 && shells <= 3,
        "{message}"
    );
    // A process that executes was forked before.
    for line in executed.iter().filter(|_| missed(&message) == 0) {
        let pid = line.split(':').next().unwrap();
        assert!(
            message.contains(&format!("fork -> {pid}\n")),
            "{line} in {message}"
        );
    }
}

#[test]
fn the_example_of_a_tracepoint_with_several_closures() {
    let message = run("probe_tracepoint", &["sh", "-c", "(true); (true); (true)"]).success();
    let lines: Vec<&str> = message.lines().collect();
    let events: Vec<&[&str]> = lines
        .split(|line| line.starts_with("before: sched:sched_process_fork"))
        .skip(1)
        .collect();
    assert!(
        events.len() as u64 + missed(&message) >= 3 && events.len() >= 2,
        "{message}"
    );
    // In order of priority; one ended itself at the first event, another was registered then.
    assert_eq!(
        (events[0][0], events[0][2]),
        ("the first one", "after"),
        "{message}"
    );
    assert!(events[0][1].contains(" has a child: "), "{message}");
    for event in &events[1..] {
        assert!(event[0].contains(" has a child: "), "{message}");
        assert_eq!(event[1..3], ["after", "one more after"], "{message}");
    }
}

#[test]
fn the_example_of_open_latency() {
    fs::write("/tmp/opened", "x").unwrap();
    let files = ["/tmp/opened", "/tmp/not-there", "/proc/uptime"];
    let message = run("probe_open_latency", &files).success();
    assert!(
        message.contains("0 returns of kretprobe:do_sys_openat2 were missed"),
        "{message}"
    );
    let line = |file: &str| {
        message
            .lines()
            .find(|line| line.starts_with(file))
            .unwrap_or_default()
    };
    let took = |file: &str| -> u64 {
        let words: Vec<&str> = line(file).split(' ').collect();
        words[words.len() - 2].parse().unwrap()
    };
    assert!(
        line("/tmp/opened").contains(": opened, ") && took("/tmp/opened") > 0,
        "{message}"
    );
    assert!(line("/tmp/not-there").contains(": error 2, "), "{message}");
    assert!(
        line("/proc/uptime").contains(": opened, ") && took("/proc/uptime") > 0,
        "{message}"
    );
}

#[test]
fn the_example_of_a_fault() {
    // uname into a page that is not there.
    let bad = program("bad-uname", &[(63, [0x1000, 0, 0]); 3]);
    let message = run("probe_fault", &[&bad]).success();
    assert!(message.contains("faults at "), "{message}");
    assert!(message.contains("\n3 faults, 0 lost"), "{message}");
    assert_eq!(message.matches("\ntrap PF\n").count(), 3, "{message}");
    for address in message.lines().filter_map(|line| line.strip_prefix("address 0x")) {
        let address = u64::from_str_radix(address, 16).unwrap();
        assert!((0x1000..0x2000).contains(&address), "{message}");
    }
    let good = program("good-uname", &[(63, [0x40_8000, 0, 0]); 3]);
    let none = run("probe_fault", &[&good]);
    assert_ne!(none.code, Some(0));
    assert!(none.err.contains("makes nothing fault"), "{}", none.err);
}

/// Hits as they come, kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Hit>>>);

impl Kept {
    fn keeper(&self) -> impl FnMut(&Hit) + Send + 'static {
        let kept = self.0.clone();
        move |hit| kept.lock().unwrap().push(hit.clone())
    }

    fn take(&self) -> Vec<Hit> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The condition that it is the workload: this process itself seeks whenever it reads a file.
fn mine() -> String {
    "comm == \"calls\"".to_owned()
}

/// Makes `count` system calls, in a process called `calls`.
fn calls(what: &str, count: u64) {
    run("calls", &[what, &count.to_string()]).success();
}

/// Seeks, as probes see them.
fn seek(probe: &mut Registration, count: u64) {
    calls("seek", count);
    probe.poll().unwrap();
}

fn missed_by(probe: &Registration) -> u64 {
    let missed = probe.missed().unwrap().into_iter();
    missed.map(|missed| missed.count.unwrap()).sum()
}

/// The kernel's list of its probes; those of links that were closed take a moment.
fn listed() -> String {
    let list = Host::default().mount_debugfs().unwrap().join("kprobes/list");
    for _ in 0..1500 {
        if fs::read_to_string(&list).unwrap().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::read_to_string(&list).unwrap()
}

#[test]
fn hits_have_the_fields_of_the_default_handler() {
    let kept = Kept::default();
    let probe = Kprobe::at("ksys_lseek").filter(&mine()).with_stack();
    let mut probe = probe.on_hit(kept.keeper()).register().unwrap();
    let before = std::time::SystemTime::now();
    seek(&mut probe, 50);
    let after = std::time::SystemTime::now();
    let hits = kept.take();
    assert!(
        hits.len() <= 50 && hits.len() as u64 + missed_by(&probe) >= 50,
        "{}",
        hits.len()
    );
    assert!(hits.is_sorted_by_key(|hit| hit.when));
    for hit in &hits {
        assert_eq!((hit.probe, hit.phase), (0, Phase::Pre));
        assert_eq!(hit.event, "kprobe:ksys_lseek");
        let registers = hit.registers.as_ref().unwrap();
        let names: Vec<&str> = hit.arguments.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fd", "offset", "whence"]);
        assert_eq!(hit.get("offset").unwrap().as_u64(), registers.get("si"));
        assert_eq!(registers.get("rsi"), registers.get("si"));
        assert!((0..50).contains(&hit.get("offset").unwrap().as_i64().unwrap()));
        assert!(hit.comm == "calls" && hit.fields.is_empty(), "{hit}");
        let symbols: Vec<&str> = hit.stack.iter().filter_map(|f| f.symbol.as_deref()).collect();
        assert!(
            symbols.iter().any(|symbol| symbol.starts_with("do_syscall_64+")),
            "{hit}"
        );
        // The two clocks are read one after the other, which may take as long as the machine likes.
        let second = Duration::from_secs(1);
        assert!(
            hit.time > before - second && hit.time < after + second,
            "{hit:?} is not between {before:?} and {after:?}"
        );
    }
    // Off, and on again; one alone, and all.
    probe::disable(&mut probe);
    seek(&mut probe, 10);
    assert_eq!((kept.take().len(), probe.probes()[0].enabled), (0, false));
    probe.disable_one(0).unwrap();
    probe::enable(&mut probe);
    seek(&mut probe, 10);
    assert_eq!(
        (kept.take().len(), probe.probes()[0].enabled),
        (0, false),
        "it is disabled itself"
    );
    probe.enable_one(0).unwrap();
    seek(&mut probe, 10);
    let again = kept.take().len();
    assert!((1..=10).contains(&again) && probe.probes()[0].enabled);
    assert_eq!(probe.probes()[0].hits as usize, hits.len() + again);
    assert!(
        probe
            .disable_one(1)
            .unwrap_err()
            .to_string()
            .contains("1 are registered")
    );
    // Unread records are read at the end.
    calls("seek", 10);
    let ended = probe::unregister(probe).unwrap();
    assert_eq!(ended.hits as usize, hits.len() + again + kept.take().len());
    assert_eq!(listed(), "");
}

/// Where a function of the kernel begins.
fn address_of(function: &str) -> u64 {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let named = |line: &&str| line.split_whitespace().nth(2) == Some(function);
    let line = symbols.lines().find(named).unwrap();
    u64::from_str_radix(line.split_once(' ').unwrap().0, 16).unwrap()
}

#[test]
fn closures_of_a_probe_at_an_address_are_called_by_their_priorities() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let keeper = |name: &'static str| {
        let order = order.clone();
        move |_: &Hit| order.lock().unwrap().push(name)
    };
    let probe = Kprobe::at_address(address_of("ksys_lseek")).filter(&mine());
    let probe = probe
        .on_hit(keeper("own"))
        .on_hit_with(-1, keeper("last"))
        .on_hit_with(7, keeper("first"));
    let mut probe = probe.register().unwrap();
    seek(&mut probe, 10);
    let called = order.lock().unwrap().clone();
    let hits = called.len() / 3;
    assert_eq!(called, ["first", "own", "last"].repeat(hits));
    assert!(hits <= 10 && hits as u64 + missed_by(&probe) >= 10, "{hits}");
}

#[test]
fn many_probes_are_registered_together_or_not_at_all() {
    let kept = Kept::default();
    let probes: Vec<Probe> = vec![
        Kprobe::at("ksys_lseek")
            .filter(&mine())
            .on_hit(kept.keeper())
            .into(),
        Kretprobe::on("ksys_lseek")
            .filter(&mine())
            .entry("to", "args.offset")
            .on_hit(kept.keeper())
            .into(),
        Jprobe::on("ksys_lseek")
            .filter(&mine())
            .on_hit(kept.keeper())
            .disabled()
            .into(),
        // Two of them at one place are two.
        Kprobe::at("ksys_lseek")
            .filter(&mine())
            .pre("record(arg1)")
            .on_hit(kept.keeper())
            .into(),
    ];
    let mut probes = probe::register_all(probes).unwrap();
    seek(&mut probes, 20);
    let hits = kept.take();
    let of = |probe: usize| hits.iter().filter(|hit| hit.probe == probe).collect::<Vec<_>>();
    let enough = |count: usize| count <= 20 && count as u64 + missed_by(&probes) >= 20;
    assert!(
        enough(of(0).len()) && enough(of(1).len()) && enough(of(3).len()),
        "{:?}",
        probes.probes()
    );
    for hit in of(1) {
        assert_eq!(hit.phase, Phase::Return);
        // /dev/zero has no positions.
        assert_eq!(hit.returned(), Some(0));
    }
    let sought = of(1)
        .into_iter()
        .map(|hit| hit.get("to").unwrap().as_i64().unwrap());
    let sought: Vec<i64> = sought.collect();
    assert!(
        sought.is_sorted_by(|a, b| a < b) && sought.last() <= Some(&19),
        "{sought:?}"
    );
    assert_eq!(of(2).len(), 0, "it was registered disabled");
    probes.enable_one(2).unwrap();
    probes.disable_one(0).unwrap();
    seek(&mut probes, 20);
    let hits = kept.take();
    let of = |probe: usize| hits.iter().filter(|hit| hit.probe == probe).collect::<Vec<_>>();
    assert!(of(0).is_empty() && !of(2).is_empty());
    for hit in of(2) {
        assert_eq!(hit.phase, Phase::Call);
        assert_eq!(hit.get("whence").unwrap().as_i64(), Some(0));
    }
    let letters: String = probes.probes().iter().map(|probe| probe.kind.letter()).collect();
    assert_eq!(letters, "krjk");
    drop(probes);
    assert_eq!(listed(), "", "dropping unregisters");

    let refused = |probes: Vec<Probe>| probe::register_all(probes).unwrap_err().to_string();
    let good = || Probe::from(Kprobe::at("vfs_read"));
    let message = refused(vec![good(), Kprobe::at("vfs_raed").into(), good()]);
    assert!(
        message.contains("kprobe:vfs_raed") && message.contains("none of the other 2"),
        "{message}"
    );
    let message = refused(vec![Kprobe::at("vfs_read").pre("record(nonsense)").into()]);
    assert!(message.contains("Unknown identifier: 'nonsense'"), "{message}");
    let message = refused(vec![Jprobe::on("vfs_read").into(), Jprobe::on("vfs_read").into()]);
    assert!(message.contains("one jprobe at a time"), "{message}");
    // A probe that would be left out silently is refused, with a correction.
    let message = refused(vec![
        good(),
        Kretprobe::on("vfs_read")
            .handler("record(retval)")
            .entry("n", "args.count")
            .into(),
    ]);
    assert!(
        message.contains("entry(\"n\", \"args.count\")") && message.contains("record(n = entry.args.count)"),
        "{message}"
    );
    assert!(
        message.starts_with("cannot register kretprobe:vfs_read, and so not the other"),
        "{message}"
    );
    let message = refused(vec![
        Kprobe::at("vfs_read").pre("record(regs)").with_stack().into(),
    ]);
    assert!(
        message.contains("with_stack()") && message.contains("record(kstack)"),
        "{message}"
    );
    let message = refused(vec![Kprobe::at("vfs_read").pre(" ").into()]);
    assert!(message.contains("its text is empty"), "{message}");
    let message = refused(vec![Kretprobe::on("vfs_read").maxactive(0).into()]);
    assert!(message.contains("from 1 to 4096"), "{message}");
    for wrong in ["", "vfs_read { exit() }", "a,b"] {
        let message = refused(vec![Kprobe::at(wrong).into()]);
        assert!(message.contains("should read"), "{message}");
    }
    let message = refused(vec![Kprobe::at("vfs_read").pre("record() } kprobe:x {").into()]);
    assert!(message.contains("in pairs"), "{message}");
    assert_eq!(listed(), "");
}

#[test]
fn a_panic_leaves_nothing_attached() {
    let probe = Kprobe::at("ksys_lseek").filter(&mine());
    let mut probe = probe.on_hit(|hit| panic!("at {}", hit.event)).register().unwrap();
    calls("seek", 20);
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| probe.poll()));
    let message = polled.unwrap_err();
    assert_eq!(message.downcast_ref::<String>().unwrap(), "at kprobe:ksys_lseek");
    assert_eq!(listed(), "", "although the registration lives");
    assert_eq!(probe.poll().unwrap(), 0);
}

#[test]
fn arrays_are_attached_in_one_operation() {
    let symbols = fs::read_to_string(format!("{}/available_filter_functions", vm_tests::TRACEFS)).unwrap();
    let names = symbols
        .lines()
        .filter(|name| name.starts_with("vfs_") && !name.contains([' ', '.']));
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(names.len() > 20, "{names:?}");
    let kept = Kept::default();
    let probe = |name: &String| Kprobe::at(name).filter(&mine()).on_hit(kept.keeper());
    let mut probes = probe::register_all(names.iter().map(probe)).unwrap();
    assert_eq!(
        probes.session().programs(),
        1,
        "{:?}",
        probes.session().fallbacks()
    );
    calls("read", 20);
    probes.poll().unwrap();
    let hits = kept.take();
    let read = names.iter().position(|name| name == "vfs_read").unwrap();
    let reads = hits.iter().filter(|hit| hit.probe == read);
    let ours = reads
        .filter(|hit| hit.get("arg2").unwrap().as_u64() == Some(1))
        .count();
    assert!(ours <= 20 && ours as u64 + missed_by(&probes) >= 20, "{ours}");
    assert!(
        hits.iter()
            .all(|hit| hit.event == format!("kprobe:{}", names[hit.probe]))
    );
    let message = probes.disable_one(read).unwrap_err().to_string();
    assert!(message.contains("in one operation"), "{message}");
    probes.unregister_in_background().unwrap();
    assert_eq!(listed(), "");
    // A pattern is one probe.
    let probe = Kprobe::at("vfs_*").filter(&mine()).on_hit(kept.keeper());
    let mut probes = probe.register().unwrap();
    calls("read", 20);
    probes.poll().unwrap();
    assert!(kept.take().iter().any(|hit| hit.event == "kprobe:vfs_read"));
    probes.disable_one(0).unwrap();
    calls("read", 20);
    assert_eq!(probes.poll().unwrap(), 0);
    probes.unregister_in_background().unwrap();
    // Of one function by two of its names, both are given what comes.
    let (known, other) = vm_tests::two_names();
    let both: Vec<&String> = names.iter().chain([&known, &other]).collect();
    let probe = |name: &&String| Kprobe::at(*name).filter(&mine()).on_hit(kept.keeper());
    let mut probes = probe::register_all(both.iter().map(probe)).unwrap();
    calls("getppid", 20);
    probes.poll().unwrap();
    let hits = kept.take();
    for probe in [names.len(), names.len() + 1] {
        let ours = hits.iter().filter(|hit| hit.probe == probe).count();
        assert!(
            ours <= 20 && ours as u64 + missed_by(&probes) >= 20,
            "{}: {ours}",
            both[probe]
        );
    }
    probes.unregister_in_background().unwrap();
    // It may be sent to a thread that reads.
    let probe = Kprobe::at("ksys_lseek").filter(&mine()).on_hit(kept.keeper());
    let mut probe = probe.register().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let ended = end.clone();
    let reader = std::thread::spawn(move || {
        probe.run_while(|| !ended.load(Ordering::Relaxed))?;
        probe.unregister()
    });
    calls("seek", 20);
    end.store(true, Ordering::Relaxed);
    let ended = reader.join().unwrap().unwrap();
    assert_eq!(ended.hits as usize, kept.take().len());
    assert!(ended.hits > 0 && ended.lost == 0, "{ended:?}");
}
