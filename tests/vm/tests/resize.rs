//! Buffers that are resized while events come: none is lost, none is in both rings, what was there can be read, and wrong wishes change nothing; the
//! same for what named probes write.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::agent::{Answer, Inbox};
use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::plan::{Options, Source, plan};
use kestrel::session::named::ProbeRequest;
use kestrel::session::start::Origin;
use kestrel::session::store::Store;
use kestrel::table::TableFile;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_tests::recording::records;
use vm_tests::{kestrel, shell};

const TABLES: &str = r#"
buffer one { size = 64k }
buffer two { size = 64k }
table a {
  syscalls:sys_enter_getppid /comm == "calls"/ { record(pid); @a = count() }
  kprobe:vfs_open { record(to("two")) }
}
table b { syscalls:sys_enter_getppid /comm == "calls"/ { record(pid, tid, to("two")); @b = count() } }
"#;

const THIRD: &str = r#"table c { syscalls:sys_enter_getppid /comm == "calls"/ { record(tid, to("one")) } }"#;

fn store() -> Store {
    Store::open(&Host::default()).unwrap()
}

fn start(name: &str, text: &str, catalog: &Catalog) {
    let file = TableFile::parse(text, name).unwrap();
    let how = Options {
        persistent: true,
        messages: true,
        ..Options::default()
    };
    let plan = plan(Source::File(&file), &how, catalog).unwrap();
    store()
        .start(name, plan, catalog, None, Origin::default())
        .unwrap();
}

/// Named probes on the same calls, beside the tables: one that counts what it records itself, and one whose records need what was kept at the entry.
const PROBES: [(&str, &str); 4] = [
    (
        "counted",
        r#"syscalls:sys_enter_getppid /comm == "calls"/ { record(pid); @counted = count() }"#,
    ),
    (
        "back",
        r#"kretprobe:__x64_sys_getppid /comm == "calls"/ { record(entry.arg0, to("two")) }"#,
    ),
    (
        "many",
        r#"kretprobe:__x64_sys_getppid:maxactive=64 /comm == "calls"/ { record(retval) }"#,
    ),
    (
        "silent",
        r#"kprobe:__x64_sys_getppid /comm == "calls"/ { @silent = count() }"#,
    ),
];

fn add_probes(session: &str, catalog: &Catalog) {
    let request = |(name, source): (&str, &str)| ProbeRequest {
        name: name.to_owned(),
        source: source.to_owned(),
        ..ProbeRequest::default()
    };
    store()
        .add_probes(session, &PROBES.map(request), false, catalog, "test")
        .unwrap();
}

/// Each probe recorded every call that the kernel let it see, once, in whichever ring.
fn probes_explained(session: &str, happened: u64) {
    let session = store().session(Some(session)).unwrap();
    let maps = session.map_snapshots().unwrap();
    let count_of = |name: &str| {
        let map = maps.iter().find(|map| map.ty.name == name).unwrap();
        let count = map.rows.first().map_or(0, |row| row.weight(&map.ty));
        u64::try_from(count).unwrap()
    };
    for probe in session.probes(&Host::default()).unwrap() {
        let kept = match probe.name.as_str() {
            "silent" => count_of("silent"),
            _ => probe.kept,
        };
        assert!(
            kept <= happened,
            "more than the {happened} that happened: {probe:?}"
        );
        assert!(kept + probe.missed >= happened, "{kept} of {happened}: {probe:?}");
        assert_eq!(probe.lost, 0, "{probe:?}");
        if probe.name == "counted" {
            assert_eq!(kept, count_of("counted"), "{probe:?}");
        }
    }
}

/// Number of the calls: kept, lost, and missed.
fn calls_counted(name: &str) -> (u64, u64, u64) {
    let session = store().session(Some(name)).unwrap();
    let status = session.status(None).unwrap();
    let call = |e: &&kestrel::session::status::EventStatus| e.event == "syscalls:sys_enter_getppid";
    let counts = status.events.iter().find(call);
    let (kept, lost) = counts.map_or((0, 0), |e| (e.recorded, e.lost));
    (kept, lost, session.missed().unwrap())
}

fn explained((kept, lost, missed): (u64, u64, u64), happened: u64) {
    assert_eq!(lost, 0);
    assert!(kept <= happened, "{kept}: more than the {happened} that happened");
    assert!(
        kept + missed >= happened,
        "{kept} and {missed} missed of {happened}"
    );
    if missed == 0 {
        assert_eq!(kept, happened);
    }
}

/// A load of system calls on every CPU.
struct Load(Vec<Child>, u64);

impl Load {
    fn start(calls: u64) -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let one = |_| {
            Command::new("calls")
                .args(["getppid", &calls.to_string()])
                .spawn()
                .unwrap()
        };
        Self((0..cpus).map(one).collect(), calls)
    }

    fn finish(mut self) -> u64 {
        self.0
            .iter_mut()
            .for_each(|child| assert!(child.wait().unwrap().success()));
        self.1 * self.0.len() as u64
    }
}

/// Handlers that name a control group are compiled again by a resize, and mean the same group, although it is gone.
#[test]
fn handlers_that_name_a_control_group_go_on() {
    let folder = "/sys/fs/cgroup/resized";
    std::fs::create_dir(folder).unwrap();
    let catalog = Catalog::new(Host::default());
    let predicate = format!(r#"/comm == "calls" && cgroup == cgroupid("{folder}")/"#);
    let text = format!(
        "buffer main {{ size = 64k }} table a {{ syscalls:sys_enter_getppid {predicate} {{ record(pid); @a = count() }} }}"
    );
    start("resized", &text, &catalog);
    let probe = format!("kprobe:__x64_sys_getppid {predicate} {{ @probe = count() }}");
    kestrel(&["probe", "add", "--session", "resized", "inside", &probe]).success();
    let inside = format!("echo $$ > {folder}/cgroup.procs && exec calls getppid 100");
    shell(&inside).success();
    shell("calls getppid 100").success();
    kestrel(&["buffer", "resize", "main", "256k"]).success();
    shell(&inside).success();
    std::fs::remove_dir(folder).unwrap();
    kestrel(&["buffer", "resize", "main", "128k"]).success();
    let listed = kestrel(&["handler", "list", "--session", "resized", "--format", "json"]).success();
    let handlers = listed.lines().map(serde_json::from_str::<serde_json::Value>);
    let handlers: Vec<serde_json::Value> = handlers.collect::<Result<_, _>>().unwrap();
    let maps = || {
        handlers
            .iter()
            .flat_map(|handler| handler["maps"].as_array().unwrap())
    };
    let counted = |name: &str| maps().find_map(|map| map["data"][name].as_u64());
    assert_eq!(
        (counted("@a"), counted("@probe")),
        (Some(200), Some(200)),
        "{listed}"
    );
    kestrel(&["probe", "remove", "--session", "resized", "inside"]).success();
    kestrel(&["stop", "resized"]).success();
}

#[test]
fn resizes_under_load_lose_and_double_nothing() {
    let catalog = Catalog::new(Host::default());
    start("resized", TABLES, &catalog);
    add_probes("resized", &catalog);
    let third = TableFile::parse(THIRD, "third").unwrap();
    let (stop, happened) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                happened.fetch_add(Load::start(1_000).finish(), Ordering::Relaxed);
                // The resizes are to come between calls, and to come soon.
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for round in 0..9u64 {
            let mut change = store().change(None).unwrap();
            if round == 3 {
                let names = ["c".to_owned()];
                change.load(&third, &names, &catalog, Via::Auto).unwrap();
            }
            let tables = if round < 3 { 2 } else { 3 };
            change
                .use_table(["a", "b", "c"][round as usize % tables])
                .unwrap();
            let (buffer, size) = (["one", "two"][round as usize % 2], 32 << 10 << (round % 3));
            let begun = Instant::now();
            let resized = change.resize(buffer, size, &catalog).unwrap();
            slowest = slowest.max(begun.elapsed());
            assert_eq!(resized.to, size);
            assert!(change.state().retiring.is_empty() && !change.state().probes.renewed);
            assert_eq!(
                change.active().unwrap().name,
                ["a", "b", "c"][round as usize % tables]
            );
            if round == 6 {
                change.use_table("a").unwrap();
                change.unload("b").unwrap();
                let again = TableFile::parse(TABLES, "again").unwrap();
                change
                    .load(&again, &["b".to_owned()], &catalog, Via::Auto)
                    .unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let happened = happened.into_inner();
    let counts = calls_counted("resized");
    println!("{happened} events, {counts:?}; the slowest resize took {slowest:?}");
    explained(counts, happened);
    probes_explained("resized", happened);
    // Counts of handlers in maps are counted once, too.
    let session = store().session(None).unwrap();
    let handlers = session.handlers().unwrap();
    let kept: u64 = handlers
        .iter()
        .filter(|h| h.source.contains("getppid") && !h.name.starts_with("probes/"))
        .map(kestrel::session::handlers::Handler::kept)
        .sum();
    // Table b went and came back: its handler began anew.
    let rows = session.state().hooks.iter().filter(|hook| hook.probe.is_none());
    let rows = rows
        .flat_map(|hook| &hook.programs)
        .flat_map(|program| &program.rows);
    let begun: Vec<(u64, u64)> = rows
        .filter_map(|row| row.reset.as_ref().filter(|_| row.source.contains("getppid")))
        .flat_map(|reset| reset.counts.clone())
        .collect();
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert!(
        kept + begun[0].0 == counts.0,
        "{kept} by handler, {begun:?} before, {counts:?} by event: {handlers:?}"
    );
    // Pins of rings that were exchanged are gone.
    let pins = shell("ls /sys/fs/bpf/kestrel/resized").success();
    let rings: Vec<&str> = pins
        .split_whitespace()
        .filter(|pin| pin.starts_with("buffer_"))
        .collect();
    assert_eq!(rings.len(), 5, "two each, and the messages': {rings:?}");
    store().stop(None).unwrap();
}

#[test]
fn resized_buffers_keep_their_records_and_refused_resizes_change_nothing() {
    let file = "/tmp/held.kst";
    std::fs::write(file, TABLES.replace("@a = count()", "notify(\"called\")")).unwrap();
    kestrel(&["start", "held", file]).success();
    let calls = |count: u32| shell(&format!("calls getppid {count}")).success();
    let resize = |words: &[&str]| {
        let run = kestrel(&[&["buffer", "resize"], words].concat());
        (run.code, run.out, run.err)
    };
    let dumped = || {
        kestrel(&["buffer", "dump", "-o", "/tmp/held.trace", "--buffer", "one"]).success();
        let records = records("/tmp/held.trace");
        assert!(records.is_sorted_by_key(|r| r.time));
        records.len()
    };
    calls(100);
    for (words, code, printed) in [
        (&["nowhere", "1M"][..], 2, "one, two, messages"),
        (&["one", "0"], 2, "nothing fits into 0 bytes"),
        (&["one", "1T"], 2, "not a unit"),
        (&["one", "257M"], 2, "1 byte to"),
        (&["one", "many"], 2, "not a unit"),
        (&["one"], 2, "SIZE"),
        (&["one", "256M"], 4, "are available"),
        (&["one", "1M", "--session", "other"], 1, "no session other"),
    ] {
        let (got, _, err) = resize(words);
        assert_eq!(got, Some(code), "{words:?}: {err}");
        assert!(err.contains(printed), "{words:?}: {err}");
    }
    // All, but for what the kernel says it missed.
    let about = |kept: usize, happened: usize| {
        let missed = calls_counted("held").2 as usize;
        assert!(
            kept <= happened && kept + missed >= happened,
            "{kept} of {happened}, {missed} missed"
        );
    };
    let first = dumped();
    about(first, 100);
    let (code, out, err) = resize(&["one", "100k", "--format", "json"]);
    assert_eq!(code, Some(0), "{err}");
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&answer["from"], &answer["to"]),
        (&65536.into(), &131_072.into()),
        "{answer}"
    );
    assert!(
        answer["kept_bytes"].as_u64().unwrap() >= 24 * first as u64,
        "{answer}"
    );
    assert_eq!(dumped(), first, "all in the old ring");
    calls(50);
    let both = dumped();
    about(both, 150);
    let only = kestrel(&["print", "/tmp/held.trace", "--buffer", "one"]).success();
    assert_eq!(only.lines().count(), both);
    let list = kestrel(&["buffer", "list"]).success();
    assert!(list.contains("before resize"), "{list}");
    println!("{list}");
    let same = resize(&["one", "128K"]);
    assert!(same.0 == Some(0) && same.2.contains("already"), "{}", same.2);
    let (_, _, err) = resize(&["one", "16K"]);
    assert!(err.contains("gone"), "{err}");
    calls(25);
    let status = kestrel(&["buffer", "list", "--format", "json"]).success();
    let status: serde_json::Value = serde_json::from_str(status.lines().next().unwrap()).unwrap();
    let counts = calls_counted("held");
    if counts.2 == 0 {
        assert_eq!(dumped(), 75, "of the first ring nothing is left");
        assert_eq!(status["overwritten"], 100, "{status}");
    }
    kestrel(&["buffer", "reset", "one"]).success();
    calls(5);
    assert!(dumped() <= 5);
    // Messages are all there, whichever ring they are in.
    let session = store().session(None).unwrap();
    let mut inbox = Inbox::open(&session).unwrap();
    let take = |inbox: &mut kestrel::agent::Inbox| inbox.poll(&mut |_, _| Ok(Answer::Done)).unwrap();
    assert_eq!(resize(&["messages", "128K"]).0, Some(0));
    calls(10);
    let (code, _, err) = resize(&["messages", "64K"]);
    assert!(code == Some(2) && err.contains("kestrel agent"), "{err}");
    // An inbox of before goes on with the old ring, a new one with both.
    let mut three = 0;
    let some = inbox.poll(&mut |_, _| {
        three += 1;
        Ok(if three > 3 { Answer::Later } else { Answer::Done })
    });
    assert_eq!(some.unwrap(), 3);
    let mut inbox = inbox.renewed(Inbox::open(&store().session(None).unwrap()).unwrap());
    about(take(&mut inbox) + 3, 190);
    assert_eq!(resize(&["messages", "64K"]).0, Some(0));
    calls(10);
    let mut inbox = inbox.renewed(Inbox::open(&store().session(None).unwrap()).unwrap());
    about(take(&mut inbox), 10);
    kestrel(&["stop", "held"]).success();
    assert!(!std::path::Path::new("/sys/fs/bpf/kestrel").exists());
}

/// 6, or as many as `KESTREL_KILLS` says.
#[test]
fn killed_resizes_leave_the_old_or_the_new() {
    let catalog = Catalog::new(Host::default());
    start("killed", TABLES, &catalog);
    add_probes("killed", &catalog);
    let command = |size: &str, wait: Option<Duration>| {
        let mut child = Command::new("kestrel")
            .args(["buffer", "resize", "one", size])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if let Some(wait) = wait {
            std::thread::sleep(wait);
            let _ = child.kill();
        }
        child.wait().unwrap();
    };
    let begun = Instant::now();
    command("16K", None);
    let takes = begun.elapsed();
    let (mut dice, mut happened) = (u64::from(std::process::id()) | 1, 0);
    let rounds = std::env::var("KESTREL_KILLS").ok().and_then(|n| n.parse().ok());
    let mut sizes = std::collections::BTreeSet::new();
    for round in 0..rounds.unwrap_or(6u64) {
        dice = dice
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let wait = takes.mul_f64((dice >> 33) as f64 / (1u64 << 31) as f64 * 1.25);
        command(["32K", "16K"][round as usize % 2], Some(wait));
        shell("calls getppid 20").success();
        happened += 20;
        explained(calls_counted("killed"), happened);
        probes_explained("killed", happened);
        let session = store().session(None).unwrap();
        sizes.insert(session.buffers().unwrap()[0].ring().geometry().pages);
    }
    println!("{takes:?} each, {sizes:?}");
    let change = store().change(None).unwrap();
    assert!(change.state().retiring.is_empty() && !change.state().probes.renewed);
    drop(change);
    let left = shell("ls /sys/fs/bpf/kestrel/killed").success();
    assert!(!left.contains('+'), "{left}");
    store().stop(None).unwrap();
}
