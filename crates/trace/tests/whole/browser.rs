//! The page that `report --html` writes, opened in a headless Chromium: what it counts equals what `kestrel report` counts, it zooms, selects and searches, and
//! nothing of a trace becomes markup.

use crate::pages::{Cell, Ring, record, text};
use crate::sample::{UUID, class, info, integer, symbols};
use kestrel_trace::browser::{About, Limits, PageBuilder};
use kestrel_trace::calls::{Signature, Signatures};
use kestrel_trace::ctf::directory::{self, Trace};
use kestrel_trace::event::EventClass;
use kestrel_trace::export::{Calls, Layout, Shown, Style};
use kestrel_trace::info::{ClockOffset, TraceInfo};
use kestrel_trace::layout::{Base, FieldType, Space};
use kestrel_trace::process::Processes;
use kestrel_trace::report::{Options, Report};
use kestrel_trace::sched::{By, Latencies, Present, SchedFilter};
use kestrel_trace::summary::{EventCount, Summary};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use testkit::browser::Browser;

/// A name that would be markup.
const MARKUP: &str = "<img src=x>&\"'";

const BEGIN_NS: u64 = 5_000_000_000_000;
const MS: u64 = 1_000_000;

/// Rounds of the recording, of 10 ms each.
const ROUNDS: u64 = 200;

/// `futex` and `read` on x86-64.
const FUTEX: u64 = 202;
const READ: u64 = 0;

fn events() -> [EventClass; 5] {
    let comm = || FieldType::CharArray { size: 16 };
    let number = || integer(4, true, Base::Decimal);
    let stack = FieldType::Stack {
        space: Space::Kernel,
        max: 32,
    };
    let arguments = FieldType::Array {
        element: Box::new(integer(8, false, Base::Hexadecimal)),
        count: 6,
    };
    let long = || integer(8, true, Base::Decimal);
    [
        class(
            1,
            "tracepoint",
            "sched:sched_switch",
            vec![
                ("prev_comm", comm()),
                ("prev_pid", number()),
                ("prev_state", integer(8, false, Base::Hexadecimal)),
                ("next_comm", comm()),
                ("next_pid", number()),
                ("kstack", stack),
            ],
        ),
        class(
            2,
            "tracepoint",
            "sched:sched_waking",
            vec![("comm", comm()), ("pid", number()), ("target_cpu", number())],
        ),
        class(
            3,
            "tracepoint",
            "raw_syscalls:sys_enter",
            vec![("id", long()), ("args", arguments.clone())],
        ),
        class(
            4,
            "tracepoint",
            "raw_syscalls:sys_exit",
            vec![("id", long()), ("ret", long())],
        ),
        // As `record --syscalls` has a class for each kind of arguments.
        class(
            5,
            "tracepoint",
            "raw_syscalls:sys_enter",
            vec![("id", long()), ("args", arguments), ("size", long())],
        ),
    ]
}

/// A trace: on CPU 0 `MARKUP` (100) and `db` (200) take turns, by futex; on CPU 1 `reader` (300) reads, and is blocked (D) for longer and longer. Then `late`
/// (400) waits for a CPU for 7 rounds. Records are lost in the middle.
fn recorded(path: &Path) -> TraceInfo {
    let [switch, waking, enter, exit, enter_sized] = events();
    let info = TraceInfo {
        events: events().to_vec(),
        ..info()
    };
    let name = |tid: u64| match tid {
        0 => "swapper/0",
        100 => MARKUP,
        200 => "db",
        300 => "reader",
        _ => "late",
    };
    let mut rings = [Ring::new(UUID, 0, 0), Ring::new(UUID, 0, 1)];
    let mut push = |cpu: usize, time_ns: u64, event: &EventClass, tid: u64, cells: &[Cell]| {
        rings[cpu].push(time_ns, &record(event, time_ns, tid as u32, tid as u32, cells));
    };
    let frames = Cell::A(vec![0xffff_ffff_8100_1010, 0xffff_ffff_8100_0020]);
    let switched = |from: u64, state: u64, to: u64| {
        [
            text(name(from)),
            Cell::U(from),
            Cell::U(state),
            text(name(to)),
            Cell::U(to),
            frames.clone(),
        ]
    };
    let woken = |tid: u64, cpu: u64| [text(name(tid)), Cell::U(tid), Cell::U(cpu)];
    let entered = |id: u64, n: u64| [Cell::U(id), Cell::A(vec![3, n, 0x1000, 0, 0, 0])];
    for round in 0..ROUNDS {
        let at = BEGIN_NS + round * 10 * MS;
        let (a, b) = if round % 2 == 0 { (100, 200) } else { (200, 100) };
        push(0, at, &enter, a, &entered(FUTEX, round));
        push(0, at + MS, &waking, a, &woken(b, 0));
        push(0, at + 2 * MS, &switch, a, &switched(a, 1, b));
        if round > 0 {
            push(0, at + 2 * MS + 500, &exit, b, &[Cell::U(FUTEX), Cell::U(0)]);
        }
        if round % 4 == 0 {
            let [id, args] = entered(READ, round);
            push(1, at + 10, &enter_sized, 300, &[id, args, Cell::U(8)]);
        } else {
            push(1, at + 10, &enter, 300, &entered(READ, round));
        }
        push(1, at + 20, &switch, 300, &switched(300, 2, 0));
        push(1, at + 30 + round * 30_000, &waking, 0, &woken(300, 1));
        push(1, at + 40 + round * 30_000, &switch, 0, &switched(0, 0, 300));
        let failed = round % 10 == 9;
        let ret = if failed { (-11_i64).cast_unsigned() } else { 4096 };
        push(1, at + 7 * MS, &exit, 300, &[Cell::U(READ), Cell::U(ret)]);
        if round == ROUNDS / 2 {
            push(1, at + 8 * MS, &waking, 300, &woken(400, 0));
        }
        if round == ROUNDS / 2 + 7 {
            push(0, at + 8 * MS, &switch, b, &switched(b, 0, 400));
            push(0, at + 9 * MS, &switch, 400, &switched(400, 1, b));
        }
    }
    let mut writer = directory::create(path, info.clone(), false).unwrap();
    for (cpu, ring) in rings.iter_mut().enumerate() {
        ring.leave();
        writer.append(0, cpu as u32, &ring.bytes()).unwrap();
    }
    writer
        .finish(&summary(), &symbols(), &Processes::default())
        .unwrap();
    info
}

/// The recorder's counts of lost events.
fn summary() -> Summary {
    Summary {
        events: vec![EventCount {
            event: "sched:sched_switch".into(),
            cpu: 1,
            recorded: 0,
            lost: 7,
            overwritten: 0,
        }],
        ..Summary::default()
    }
}

/// The page of the trace, as `report --html` writes it.
fn page(trace: &mut Trace, limits: Limits) -> Vec<u8> {
    let mut signatures = Signatures::default();
    signatures.insert(FUTEX, Signature::new("futex", []));
    signatures.insert(READ, Signature::new("read", []));
    let calls = Calls::new(signatures, Shown::default(), Layout::Lines, Style::default());
    let names = (trace.processes.clone(), trace.tasks.clone());
    let info = trace.reader.info().clone();
    let mut page = PageBuilder::new(&info, symbols(), names, Some(calls), limits);
    let mut lost = 0;
    loop {
        let before = page.last_ns();
        let Some(record) = trace.reader.next().unwrap() else {
            break;
        };
        page.record(&record, true);
        let now = trace.reader.lost();
        if now > lost {
            page.lose(now - lost, before);
            lost = now;
        }
    }
    let about = About {
        info,
        path: "a.trace".into(),
        missing: vec!["lost 7 events </script> while recording: the ring was full".into()],
        notes: vec![],
    };
    page.finish(about).bytes().to_vec()
}

struct Opened {
    _place: TempDir,
    path: PathBuf,
    browser: Browser,
}

/// The page in a browser; none where there is no browser.
fn opened() -> Option<Opened> {
    opened_with(Limits::USUAL)
}

fn opened_with(limits: Limits) -> Option<Opened> {
    let mut browser = Browser::start()?;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.trace");
    recorded(&path);
    let file = place.path().join("a.html");
    std::fs::write(&file, page(&mut directory::open(&path).unwrap(), limits)).unwrap();
    browser.open(&file, READY);
    Some(Opened {
        _place: place,
        path,
        browser,
    })
}

const READY: &str = "window.kestrel";

/// `kestrel report` of the records in a range, by event.
fn reported(path: &Path, range: RangeInclusive<u64>) -> Vec<(String, u64)> {
    let mut trace = directory::open(path).unwrap();
    let report = Report::of_chosen(&mut trace.reader, Options::default(), &mut |record| {
        range.contains(&record.time_ns)
    });
    let mut counts: Vec<_> = report
        .unwrap()
        .table("events")
        .iter()
        .map(|row| (row.name.clone(), row.count))
        .collect();
    counts.sort();
    counts
}

impl Opened {
    fn ask(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    /// Cells of a table that is seen, row by row.
    fn table(&mut self, name: &str) -> Vec<Vec<String>> {
        let rows = format!(
            "[...document.querySelectorAll('[data-table={name}] tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
        );
        serde_json::from_value(self.ask(&rows)).unwrap()
    }

    /// The events of the table, by name.
    fn events(&mut self) -> Vec<(String, u64)> {
        self.ask("kestrel.panel.show('events')");
        let rows = self.table("events");
        let mut counts: Vec<_> = rows
            .iter()
            .map(|row| (row[0].clone(), row[1].replace(',', "").parse().unwrap()))
            .collect();
        counts.sort();
        counts
    }

    fn number(&mut self, expression: &str) -> f64 {
        self.ask(expression).as_f64().unwrap()
    }

    /// The middle of the time lines, on the page.
    fn middle(&mut self) -> (f64, f64) {
        let place = self.ask("(box => [box.left + box.width * .6, box.top + 90])(document.getElementById('lanes').getBoundingClientRect())");
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    fn width(&mut self) -> f64 {
        self.number("kestrel.timeline.view.to - kestrel.timeline.view.from")
    }

    /// Until what was asked is drawn.
    fn drawn(&mut self) {
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    }

    #[track_caller]
    fn is_well(&self) {
        assert!(
            self.browser.problems().is_empty(),
            "{:?}",
            self.browser.problems()
        );
    }
}

#[test]
fn the_page_has_the_counts_of_the_report() {
    let Some(mut page) = opened() else { return };
    let whole = reported(&page.path, 0..=u64::MAX);
    assert_eq!(page.events(), whole);
    let lanes = "kestrel.timeline.lanes.filter(lane => lane.kind === KIND).map(lane => lane.label)";
    assert_eq!(
        page.ask(&lanes.replace("KIND", "'cpu'")),
        json!(["CPU 0", "CPU 1"])
    );
    let mut threads: Vec<String> =
        serde_json::from_value(page.ask(&lanes.replace("KIND", "'thread'"))).unwrap();
    threads.sort();
    assert_eq!(
        threads,
        [&format!("{MARKUP} 100"), "db 200", "late 400", "reader 300"]
    );
    // A range, by dragging with Shift: the tables are of it.
    let (x, y) = page.middle();
    page.browser.drag((x - 150.0, y), (x + 100.0, y), 8);
    page.drawn();
    let edge = |edge: &str| {
        format!("String(kestrel.recording.origin + BigInt(Math.round(kestrel.timeline.range.{edge} * 1)))")
    };
    let at = |value: Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let (from, to) = (at(page.ask(&edge("from"))), at(page.ask(&edge("to"))));
    assert!(from < to && to - from < ROUNDS * 10 * MS);
    let of_range = reported(&page.path, from..=to);
    assert_eq!(page.events(), of_range);
    assert_ne!(of_range, whole);
    // Escape drops it.
    page.browser.key("Escape");
    assert_eq!(page.events(), whole);
    page.is_well();
}

#[test]
fn the_page_has_the_longest_delays_and_their_causes() {
    let Some(mut page) = opened() else { return };
    page.ask("kestrel.panel.show('threads')");
    // How long each ran and waited for a CPU is what `kestrel sched latency` says.
    let mut trace = directory::open(&page.path).unwrap();
    let present = Present::of(trace.reader.info());
    let mut latencies = Latencies::new(present, trace.processes.clone(), SchedFilter::default());
    while let Some(record) = trace.reader.next().unwrap() {
        latencies.add(&record);
    }
    let times = page.ask(
        "(sums => Object.fromEntries([...kestrel.recording.threads.tid.entries()].map(([thread, tid]) => \
         [tid, [sums.runnable[thread], kestrel.recording.states.ns[sums.longestRunnable[thread]] ?? 0]])))\
         (threadTimes(kestrel.recording, 0, kestrel.recording.span))",
    );
    for row in latencies.finish(By::Thread, &[]) {
        let tid = row.who.tid.to_string();
        assert_eq!(times[&tid], json!([row.delay_ns, row.max_ns]), "{tid}");
    }
    assert_eq!(times["400"][0], json!(70 * MS));
    assert_eq!(page.table("threads").len(), 4);
    page.ask("kestrel.panel.show('waits')");
    let waits = page.table("waits");
    let for_cpu = waits.iter().find(|row| row[2].contains("runnable")).unwrap();
    assert_eq!(for_cpu[0], "70.00 ms");
    assert_eq!(for_cpu[1], "late 400");
    let blocked = waits.iter().find(|row| row[2].contains("(D)")).unwrap();
    assert_eq!(
        blocked[0],
        format!("{:.3} ms", ((ROUNDS - 1) * 30_000 + 10) as f64 / 1e6)
    );
    assert_eq!((blocked[1].as_str(), blocked[3].as_str()), ("reader 300", "read"));
    page.ask("kestrel.panel.show('latencies')");
    let rows = page.table("latencies");
    let read = rows.iter().find(|row| row[0] == "read").unwrap();
    assert_eq!(
        (read[1].as_str(), read[2].as_str()),
        ("200", "20"),
        "calls and those that failed"
    );
    let histogram = page.table("histogram");
    let first: u64 = rows[0][1].replace(',', "").parse().unwrap();
    let counted: u64 = histogram.iter().map(|row| row[1].parse::<u64>().unwrap()).sum();
    assert_eq!(counted, first);
    page.ask("kestrel.panel.show('flame')");
    let frames = page.ask("[...document.querySelectorAll('#flame div')].map(frame => frame.textContent)");
    let has = |name: &str| frames.as_array().unwrap().iter().any(|frame| *frame == name);
    assert!(has("ksys_read") && has("vfs_read"), "{frames}");
    page.is_well();
}

#[test]
fn the_page_zooms_moves_and_searches() {
    let Some(mut page) = opened() else { return };
    let whole = page.width();
    let (x, y) = page.middle();
    page.browser
        .mouse("mouseWheel", (x, y), json!({ "deltaX": 0, "deltaY": -400 }));
    page.browser.until(&format!(
        "kestrel.timeline.view.to - kestrel.timeline.view.from < {whole}"
    ));
    let wheel = page.width();
    page.ask("document.getElementById('lanes').focus()");
    for (key, narrower) in [("w", true), ("+", true), ("-", false), ("s", false)] {
        let before = page.width();
        page.browser.key(key);
        assert_eq!(page.width() < before, narrower, "{key}");
    }
    assert!((page.width() / wheel - 1.0).abs() < 1e-6);
    let from = page.number("kestrel.timeline.view.from");
    page.browser.key("d");
    assert!(page.number("kestrel.timeline.view.from") > from);
    let from = page.number("kestrel.timeline.view.from");
    page.browser.drag((x, y), (x + 80.0, y), 0);
    assert!(page.number("kestrel.timeline.view.from") < from, "dragged");
    page.browser.key("0");
    assert_eq!(page.number("kestrel.timeline.view.from"), 0.0);

    // `late` is in its waking and in two switches; a click on what was found shows its fields.
    page.browser.key("/");
    for letter in "late".chars() {
        page.browser.key(&letter.to_string());
    }
    page.browser.until("kestrel.search.count > 0");
    assert_eq!(
        page.ask("document.getElementById('found').textContent"),
        json!("3")
    );
    page.browser.key("Enter");
    page.browser.until("kestrel.timeline.chosen");
    assert_eq!(
        page.ask("document.getElementById('found').textContent"),
        json!("1 of 3")
    );
    page.ask("document.getElementById('next').click()");
    assert_eq!(
        page.ask("document.getElementById('found').textContent"),
        json!("2 of 3")
    );
    page.ask("document.getElementById('previous').click()");
    page.ask("kestrel.panel.show('details')");
    let details = page.ask("document.getElementById('content').textContent");
    assert!(details.as_str().unwrap().contains("target_cpu0"), "{details}");
    for (wanted, found) in [
        ("next_pid=400", 1),
        ("ret=-11", 20),
        // An argument of each call, and what reads return.
        ("0x1000", 200 + 200 + 180),
        ("no such", 0),
    ] {
        page.ask(&format!("kestrel.search.look('{wanted}')"));
        assert_eq!(page.number("kestrel.search.count"), f64::from(found), "{wanted}");
    }

    // A click on the state under the pointer shows it.
    page.browser.key("Escape");
    let lane = page.ask("(lane => [document.getElementById('lanes').getBoundingClientRect().left + kestrel.timeline.xOf(kestrel.recording.span / 2), document.getElementById('lanes').getBoundingClientRect().top + AXIS + lane.top + lane.places[0].top + 5])(kestrel.timeline.lanes.find(lane => lane.label === 'db 200'))");
    let place = (lane[0].as_f64().unwrap(), lane[1].as_f64().unwrap());
    page.browser.mouse("mouseMoved", place, json!({}));
    assert_eq!(page.ask("document.getElementById('tip').hidden"), json!(false));
    page.browser.drag(place, place, 0);
    assert_eq!(page.ask("kestrel.timeline.chosen.kind"), json!("state"));
    assert!(
        page.ask("document.getElementById('content').textContent")
            .as_str()
            .unwrap()
            .contains("db 200")
    );

    // Frames: each zoom step is drawn before the next one is asked for.
    let rate = page.number(
        "new Promise(done => { const begun = performance.now(); let step = 0; const next = () => { \
         kestrel.timeline.zoom(step < 30 ? 0.8 : 1.25); kestrel.timeline.draw(); \
         if (++step < 60) requestAnimationFrame(next); else done(60000 / (performance.now() - begun)); }; next(); })",
    );
    eprintln!("{rate:.0} frames a second");
    page.is_well();
}

#[test]
fn markup_in_a_trace_is_shown_as_text_and_losses_as_warnings() {
    let Some(mut page) = opened() else { return };
    assert_eq!(page.ask("document.images.length"), json!(0));
    let warnings = page.ask("document.getElementById('warnings').textContent");
    assert!(
        warnings.as_str().unwrap().contains("lost 7 events </script>"),
        "{warnings}"
    );
    for tab in [
        "threads",
        "waits",
        "reasons",
        "latencies",
        "events",
        "flame",
        "details",
        "about",
    ] {
        page.ask(&format!("kestrel.panel.show('{tab}')"));
        assert_eq!(
            page.ask("document.querySelectorAll('img').length"),
            json!(0),
            "{tab}"
        );
    }
    // Light and dark: as the system prefers, and by the switch.
    let ground = "getComputedStyle(document.body).backgroundColor";
    page.browser.prefer("dark");
    page.browser
        .until("document.documentElement.classList.contains('dark')");
    let dark = page.ask(ground);
    page.ask("document.getElementById('theme').click()");
    assert_ne!(page.ask(ground), dark);
    page.is_well();
}

#[test]
fn a_page_of_too_much_is_a_sample_and_says_so() {
    let few = Limits {
        events: 300,
        states: 200,
        calls: 100,
    };
    let Some(mut page) = opened_with(few) else { return };
    let warnings = page.ask("document.getElementById('warnings').textContent");
    let warnings = warnings.as_str().unwrap();
    for words in [
        "has a sample of the most frequent: one in",
        "are drawn as sums only",
        "are not drawn",
    ] {
        assert!(warnings.contains(words), "{words}: {warnings}");
    }
    assert!(page.number("kestrel.recording.events.time.length") <= 300.0);
    assert!(page.number("kestrel.recording.states.begin.length") <= 200.0);
    // Totals of the whole recording are of all.
    assert_eq!(page.events(), reported(&page.path, 0..=u64::MAX));
    let times = "(sums => [...kestrel.recording.threads.tid.entries()].map(([thread, tid]) => \
         [tid, sums.running[thread], sums.runnable[thread], sums.blocked[thread], sums.asleep[thread]]))\
         (threadTimes(kestrel.recording, 0, kestrel.recording.span))";
    let Some(mut whole) = opened() else { return };
    assert_eq!(page.ask(times), whole.ask(times));
    // Of a part they are estimates, and marked.
    page.ask("kestrel.timeline.setRange(0, kestrel.recording.span / 2)");
    page.ask("kestrel.panel.show('events')");
    assert!(page.table("events")[0][1].starts_with('≈'));
    // The longest wait is there, whatever else is not.
    page.ask("kestrel.timeline.setRange(null)");
    page.ask("kestrel.panel.show('waits')");
    assert!(
        page.table("waits")
            .iter()
            .any(|row| row[0] == "70.00 ms" && row[1] == "late 400")
    );
    page.is_well();
}

#[test]
fn a_page_of_one_record_without_a_time_of_day_invents_none() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("one.trace");
    let [_, waking, ..] = events();
    let info = TraceInfo {
        events: events().to_vec(),
        clock: ClockOffset::default(),
        ..info()
    };
    let mut ring = Ring::new(UUID, 0, 0);
    let cells = [text("db"), Cell::U(200), Cell::U(0)];
    ring.push(BEGIN_NS, &record(&waking, BEGIN_NS, 100, 100, &cells));
    ring.leave();
    let mut writer = directory::create(&path, info, false).unwrap();
    writer.append(0, 0, &ring.bytes()).unwrap();
    writer
        .finish(&Summary::default(), &symbols(), &Processes::default())
        .unwrap();
    let file = place.path().join("one.html");
    std::fs::write(&file, page(&mut directory::open(&path).unwrap(), Limits::USUAL)).unwrap();
    browser.open(&file, READY);
    browser.evaluate("kestrel.panel.show('about')");
    let text = browser.evaluate("document.body.innerText").to_string();
    assert!(text.contains("it does not say the time of day"), "{text}");
    assert!(!text.contains("1970") && !text.contains("1 ns"), "{text}");
    assert!(browser.problems().is_empty(), "{:?}", browser.problems());
}
