//! Tests of the explorer over a recording of which every count is known: what keys do, and what the screen shows.

use super::explorer::{Explorer, Mode};
use super::jobs::Jobs;
use super::tables::Tab;
use crate::filter::Choice;
use crate::terminal::testing::{picture, press};
use crate::terminal::{AfterKey, KeyCode, KeyEvent, KeyModifiers};
use kestrel_trace::ctf::directory;
use std::path::{Path, PathBuf};
use testkit::recording::{self, PER_ROUND};

const ROUNDS: u64 = 300;

/// A recording with an explorer whose questions are answered at once.
struct Shown {
    _place: tempfile::TempDir,
    path: PathBuf,
    explorer: Explorer,
}

fn shown_of(rounds: u64, level: Option<u8>, lost: u64) -> Shown {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.trace");
    recording::write(&path, rounds, level, lost);
    let explorer = opened(&path);
    Shown {
        _place: place,
        path,
        explorer,
    }
}

fn opened(path: &Path) -> Explorer {
    let mut trace = directory::open(path).unwrap();
    let choice = Choice::everything(&mut trace).unwrap();
    let mut explorer = super::explorer(trace, path, choice, false);
    explorer.jobs = Jobs::new(explorer.jobs.source.clone()).at_once();
    explorer.go_on();
    explorer
}

fn shown() -> Shown {
    shown_of(ROUNDS, None, 0)
}

impl Shown {
    fn key(&mut self, key: KeyEvent) -> AfterKey {
        let then = self.explorer.press(key);
        self.explorer.go_on();
        then
    }

    fn press(&mut self, code: KeyCode) -> &mut Self {
        self.key(press(code));
        self
    }

    fn letters(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter));
        }
        self
    }

    fn typed(&mut self, text: &str) -> &mut Self {
        self.letters(text).press(KeyCode::Enter)
    }

    /// The first two cells of the table's rows.
    fn rows(&self) -> Vec<(String, String)> {
        let table = &self.explorer.level().table().unwrap().table;
        let cells = table
            .shown()
            .map(|row| (row.cells[0].shown().to_owned(), row.cells[1].shown().to_owned()));
        cells.collect()
    }

    fn records(&self) -> u64 {
        self.explorer.level().report.as_ref().unwrap().records
    }

    fn tab(&mut self, tab: Tab) -> &mut Self {
        let place = self
            .explorer
            .tabs()
            .iter()
            .position(|(it, _)| *it == tab)
            .unwrap();
        self.letters(&(place + 1).to_string())
    }

    fn picture(&mut self, columns: u16, lines: u16) -> String {
        // The first drawing says how much room there is.
        _ = picture(&mut self.explorer, columns, lines);
        self.explorer.go_on();
        picture(&mut self.explorer, columns, lines)
    }

    /// The line of the chosen record.
    fn line(&mut self) -> String {
        self.picture(300, 24);
        let records = &self.explorer.level().records;
        records.line(records.at).unwrap().text.clone()
    }
}

fn row(name: &str, count: &str) -> (String, String) {
    (name.to_owned(), count.to_owned())
}

#[test]
fn the_first_view_equals_the_plain_report() {
    let mut shown = shown();
    let events = [
        "raw_syscalls:sys_enter",
        "raw_syscalls:sys_exit",
        "sched:sched_switch",
    ];
    let mut rows = shown.rows();
    rows.sort();
    let mut expected = events.map(|name| row(name, "600")).to_vec();
    expected.push(row("sched:sched_waking", "300"));
    assert_eq!(rows, expected);
    assert_eq!(shown.records(), ROUNDS * PER_ROUND);
    shown.tab(Tab::Processes);
    assert_eq!(
        shown.rows(),
        [
            row("server-200", "1,200"),
            row("reader-300", "600"),
            row("<idle>-0", "300")
        ]
    );
    shown.tab(Tab::Threads);
    assert_eq!(shown.rows()[0], row("server-200 (200)", "600"));
    shown.tab(Tab::Cpus);
    assert_eq!(shown.rows(), [row("CPU 0", "1,200"), row("CPU 1", "900")]);
}

#[test]
fn each_step_counts_the_number_of_its_row_and_leads_back() {
    let mut shown = shown();
    shown.tab(Tab::Processes).press(KeyCode::Enter);
    assert_eq!((shown.records(), shown.explorer.level().tab), (1200, Tab::Events));
    assert!(shown.rows().contains(&row("sched:sched_waking", "300")));
    shown.letters("/wak").press(KeyCode::Enter).press(KeyCode::Enter);
    assert_eq!((shown.records(), shown.explorer.level().tab), (300, Tab::Records));
    assert!(
        shown.line().contains("sched:sched_waking: comm=reader pid=300"),
        "{}",
        shown.line()
    );
    assert_eq!(shown.explorer.depth(), 3);
    // Back: to the process, then its filter goes, then to the whole recording.
    for depth in [2, 2, 1, 1] {
        shown.press(KeyCode::Esc);
        assert_eq!(shown.explorer.depth(), depth);
    }
    assert_eq!(shown.records(), ROUNDS * PER_ROUND);
    shown.tab(Tab::Threads).letters("r");
    assert_eq!((shown.records(), shown.explorer.level().tab), (600, Tab::Records));
    assert_eq!(shown.key(press(KeyCode::Char('q'))), AfterKey::Quit);
}

#[test]
fn rows_are_sorted_by_any_column() {
    let mut shown = shown();
    shown.tab(Tab::Processes);
    shown.letters("R");
    assert_eq!(shown.rows()[0], row("<idle>-0", "300"));
    shown.letters("<");
    let names: Vec<String> = shown.rows().into_iter().map(|row| row.0).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn an_expression_filters_and_its_errors_are_shown_in_their_place() {
    let mut shown = shown();
    shown.letters("f").typed("ret < nothing");
    let Mode::Typing(typing) = &shown.explorer.mode else {
        panic!("the line stays");
    };
    let wrong = typing.wrong.join("\n");
    assert!(wrong.contains("nothing") && wrong.contains('^'), "{wrong}");
    assert!(shown.picture(80, 24).contains("nothing"));
    shown.press(KeyCode::Esc).letters("f").typed("ret < 0");
    assert_eq!(
        (shown.records(), shown.rows()),
        (30, vec![row("raw_syscalls:sys_exit", "30")])
    );
    shown.letters("f").typed("comm == \"reader\"");
    assert_eq!(shown.records(), 0);
    assert!(shown.picture(80, 24).contains("no event matches"));
    shown.press(KeyCode::Backspace).press(KeyCode::Backspace);
    assert_eq!(shown.explorer.depth(), 1);
}

#[test]
fn times_that_are_chosen_hold_for_everything() {
    let mut shown = shown();
    shown.picture(80, 24);
    shown.letters("t").press(KeyCode::Home).letters(" ");
    let far = KeyEvent::new(KeyCode::Right, KeyModifiers::SHIFT);
    shown.key(far);
    let drawn = shown.picture(80, 24);
    let counted = drawn
        .lines()
        .find(|line| line.contains(" to ") && line.contains(" events"));
    let counted = counted
        .unwrap()
        .split(": ")
        .nth(1)
        .unwrap()
        .replace(" events", "");
    shown.press(KeyCode::Enter);
    let inside = shown.records();
    assert_eq!(inside.to_string(), counted.trim(), "{drawn}");
    assert!(inside > 100 && inside < ROUNDS * PER_ROUND / 4, "{inside}");
    shown.tab(Tab::Processes);
    let counts = shown
        .rows()
        .iter()
        .map(|row| row.1.parse::<u64>().unwrap())
        .sum::<u64>();
    assert_eq!(counts, inside);
}

#[test]
fn latencies_and_calls_are_those_of_report() {
    let mut shown = shown();
    shown.tab(Tab::Latencies);
    let table = &shown.explorer.level().table().unwrap().table;
    let cells: Vec<Vec<&str>> = table
        .shown()
        .map(|row| row.cells.iter().map(|cell| cell.shown()).collect())
        .collect();
    let calls = cells
        .iter()
        .find(|cells| cells[0] == "raw_syscalls:sys_enter to sys_exit")
        .unwrap();
    assert_eq!((calls[1], calls[3], calls[6]), ("600", "5.5 ms", "7.0 ms"));
    let wakeups = cells
        .iter()
        .find(|cells| cells[0] == "sched:sched_waking to sched_switch")
        .unwrap();
    assert_eq!((wakeups[1], wakeups[3]), ("300", "30.0 µs"));
    shown.letters("/sys_enter").press(KeyCode::Enter).letters("h");
    let histogram = shown.picture(80, 24);
    assert!(
        histogram.contains("[2M, 4M)") && histogram.contains("sys_exit, ns"),
        "{histogram}"
    );
    shown.press(KeyCode::Esc).press(KeyCode::Esc);
    shown
        .letters("/waking")
        .press(KeyCode::Enter)
        .press(KeyCode::Enter);
    assert_eq!(shown.records(), 900, "wakeups and switches");
    shown.press(KeyCode::Esc).press(KeyCode::Esc).tab(Tab::Calls);
    assert_eq!(shown.rows(), [row("futex", "300"), row("read", "300")]);
    shown.press(KeyCode::Down).press(KeyCode::Enter);
    assert_eq!(shown.records(), 600, "entries and returns of read");
    shown
        .press(KeyCode::Esc)
        .letters("p")
        .typed("sched:sched_waking,raw_syscalls:sys_exit");
    assert_eq!(shown.rows().len(), 1);
    shown.letters("p").typed("sched:none,sched:sched_switch");
    assert!(matches!(&shown.explorer.mode, Mode::Typing(typing) if !typing.wrong.is_empty()));
}

#[test]
fn the_call_graph_opens_turns_zooms_and_leads_to_its_records() {
    let mut shown = shown();
    shown.tab(Tab::Graph);
    let symbols = |shown: &Shown| -> Vec<String> {
        let table = &shown.explorer.level().table().unwrap().table;
        table
            .shown()
            .map(|row| format!("{} {}", row.cells[0].shown(), row.cells[4].shown().trim()))
            .collect()
    };
    // Below the command: functions by what they weigh with what they called.
    let all = symbols(&shown);
    assert_eq!(
        all[..2],
        ["50.00 % + [k] schedule", "50.00 % + [k] do_idle"],
        "of the idle task"
    );
    shown.letters("/do_sys").press(KeyCode::Enter);
    let all: Vec<String> = symbols(&shown);
    assert_eq!(
        all,
        ["25.00 % + [k] do_syscall_64", "25.00 % + [k] do_syscall_64"],
        "of both threads"
    );
    shown.press(KeyCode::Esc).letters("/server").press(KeyCode::Enter);
    shown.press(KeyCode::Enter);
    shown.press(KeyCode::Esc);
    let open = symbols(&shown);
    assert!(open.contains(&"16.67 % + [k] vfs_read".to_owned()), "{open:?}");
    let place = open
        .iter()
        .position(|row| row == "8.33 % + [k] futex_wait")
        .unwrap();
    (0..100).for_each(|_| _ = shown.press(KeyCode::Up));
    (0..place).for_each(|_| _ = shown.press(KeyCode::Down));
    shown.letters("r");
    assert_eq!((shown.records(), shown.explorer.level().tab), (50, Tab::Records));
    shown.press(KeyCode::Esc).letters("z");
    assert_eq!(
        symbols(&shown),
        ["100.00 % + [k] futex_wait", "100.00 % [k] schedule"]
    );
    shown.press(KeyCode::Esc);
    assert_eq!(shown.explorer.depth(), 1);
    shown
        .letters("c/schedule")
        .press(KeyCode::Enter)
        .letters("e")
        .press(KeyCode::Esc);
    let callers = symbols(&shown);
    assert!(callers.contains(&"50.00 % [k] do_idle".to_owned()), "{callers:?}");
    // By a column of text.
    shown.letters(">>>>");
    let table = &shown.explorer.level().table().unwrap().table;
    let names: Vec<&str> = table.shown().map(|row| row.cells[4].shown().trim()).collect();
    assert!(names.is_sorted(), "{names:?}");
    // Off the CPU: each switch out until the next switch to the thread; the server is never switched to.
    shown.letters("o");
    assert!(shown.picture(120, 24).contains("off the CPU"));
}

#[test]
fn records_are_found_in_a_plain_and_a_packed_recording() {
    const MANY: u64 = 6_000;
    for level in [None, Some(3)] {
        let mut shown = shown_of(MANY, level, 0);
        let mut printed = Vec::new();
        let mut trace = directory::open(&shown.path).unwrap();
        let format = &kestrel_trace::export::FORMATS[0];
        let mut lines = (format.new)(Default::default(), trace.symbols.clone(), trace.processes.clone());
        kestrel_trace::export::all(&mut trace.reader, lines.as_mut(), &mut printed, "memory").unwrap();
        let printed = String::from_utf8(printed).unwrap();
        // Stacks stand below their records.
        let printed: Vec<&str> = printed.lines().filter(|line| line.contains("] ")).collect();
        assert_eq!(printed.len() as u64, MANY * PER_ROUND);
        shown.tab(Tab::Records);
        for number in [1, 2, 777, 21_000, MANY * PER_ROUND, 39_000, 3] {
            shown.letters("#").typed(&number.to_string());
            assert_eq!(shown.line(), printed[number as usize - 1], "record {number}");
        }
        shown.press(KeyCode::End);
        assert_eq!(shown.line(), *printed.last().unwrap());
        shown.press(KeyCode::PageUp).press(KeyCode::Up);
        let at = shown.explorer.level().records.at as usize;
        assert_eq!(shown.line(), printed[at]);
        assert!(
            shown.explorer.level().records.held() < 5000,
            "most stay on the disk"
        );
        // A scope in which records are rare.
        shown.letters("f").typed("ret < 0");
        shown.press(KeyCode::End);
        assert!(shown.line().contains("ret=-11"), "{}", shown.line());
        assert_eq!(shown.records(), MANY / 10);
    }
}

#[test]
fn a_record_is_shown_with_all_it_has() {
    let mut shown = shown();
    shown
        .letters("/switch")
        .press(KeyCode::Enter)
        .press(KeyCode::Enter);
    shown.press(KeyCode::Enter);
    let drawn = shown.picture(100, 30);
    for part in [
        "sched:sched_switch (tracepoint)",
        "prev_comm",
        "next_pid",
        "schedule+0x10",
    ] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    shown.press(KeyCode::Esc).letters("T");
    assert!(
        shown.line().contains(" 0.001030: "),
        "since the start: {}",
        shown.line()
    );
    shown.letters("/").typed("next_comm=READER");
    assert_eq!(shown.records(), ROUNDS, "in whatever case");
}

#[test]
fn groups_are_counted_by_expressions() {
    let mut shown = shown();
    shown.letters("b").typed("comm,ret < 0");
    assert_eq!(shown.explorer.level().tab, Tab::Groups);
    let groups = shown.rows();
    let expected = [
        ("reader", "false"),
        ("server", "false"),
        ("server-2", "false"),
        ("server-2", "true"),
    ];
    assert_eq!(groups, expected.map(|(name, failed)| row(name, failed)));
    shown.press(KeyCode::Enter);
    assert_eq!(shown.explorer.level().tab, Tab::Events);
    assert_eq!(shown.records(), 300, "the reader's returns");
}

#[test]
fn losses_stand_on_the_first_line() {
    let mut whole = shown();
    assert!(whole.picture(80, 24).lines().next().unwrap().contains("lost 0"));
    let mut lossy = shown_of(ROUNDS, None, 12_345);
    assert!(
        lossy
            .picture(80, 24)
            .lines()
            .next()
            .unwrap()
            .contains("lost 12,345")
    );
    lossy.letters("i");
    let about = lossy.picture(80, 24);
    assert!(
        about.contains("sched:sched_waking on CPU 0: lost 12,345"),
        "{about}"
    );
}

#[test]
fn a_recording_that_is_gone_is_a_word_on_the_screen() {
    let mut shown = shown();
    std::fs::remove_dir_all(&shown.path).unwrap();
    shown.tab(Tab::Processes).press(KeyCode::Enter);
    let drawn = shown.picture(80, 24);
    assert!(drawn.contains("cannot"), "{drawn}");
    shown.press(KeyCode::Esc);
    assert_eq!(shown.rows().len(), 3, "what was known stays");
}

#[test]
fn it_fits_every_terminal() {
    let mut shown = shown();
    for tab in [Tab::Events, Tab::Graph, Tab::Latencies, Tab::Calls, Tab::Records] {
        shown.tab(tab);
        for (columns, lines) in [(1, 1), (3, 2), (20, 5), (80, 24), (200, 50)] {
            shown.picture(columns, lines);
        }
    }
    for letter in ["?", "f", "t", "i"] {
        shown.letters(letter);
        for (columns, lines) in [(1, 1), (3, 2), (20, 5), (80, 24)] {
            shown.picture(columns, lines);
        }
        shown.press(KeyCode::Esc);
    }
}

#[test]
fn a_small_screen_has_rows_and_the_chosen_tab_and_errors_whole() {
    let mut shown = shown();
    shown.tab(Tab::Records);
    for (columns, lines) in [(40, 10), (20, 6)] {
        let drawn = shown.picture(columns, lines);
        assert!(drawn.contains("Records"), "{drawn}");
        assert!(drawn.contains("server") || drawn.contains("reader"), "{drawn}");
    }
    // A range of times is chosen in the histogram, which is drawn for that.
    shown.letters("t");
    assert!(shown.picture(40, 10).contains(" to "));
    shown.press(KeyCode::Esc);
    shown.letters("f").letters("nosuch == 1").press(KeyCode::Enter);
    let drawn = shown.picture(60, 24);
    assert!(drawn.contains("    nosuch == 1"), "{drawn}");
    let hint: String = drawn.lines().skip_while(|line| !line.contains("hint:")).collect();
    assert!(hint.contains("comm") && hint.contains("target_cpu"), "{drawn}");
}

/// Prints pictures, to be looked at: `cargo test -p kestrel-cli looks -- --ignored --nocapture`.
#[test]
#[ignore = "to be looked at"]
fn looks() {
    let mut shown = shown();
    for (columns, lines) in [(80, 24), (200, 50)] {
        for tab in [
            Tab::Events,
            Tab::Processes,
            Tab::Graph,
            Tab::Latencies,
            Tab::Calls,
            Tab::Records,
        ] {
            shown.tab(tab);
            println!(
                "{}\n{}",
                "=".repeat(columns.into()),
                shown.picture(columns, lines)
            );
        }
        for letters in ["?", "f", "t"] {
            shown.letters(letters);
            println!(
                "{}\n{}",
                "=".repeat(columns.into()),
                shown.picture(columns, lines)
            );
            shown.press(KeyCode::Esc);
        }
    }
}
