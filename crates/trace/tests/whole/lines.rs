//! Lines and reports as people and programs see them.

use crate::pages::{Cell, record};
use crate::sample;
use crate::writing::{sealed, write};
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{self, MapType, ValueKind};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::read::Reader;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::export::{Export, Json, Style, Text, all, format};
use kestrel_trace::layout::{Base, FieldType, Layout, Names};
use kestrel_trace::process::Processes;
use kestrel_trace::report::{Options, Report, text};
use kestrel_trace::summary::{Summary, UNFINISHED};
use kestrel_trace::symbol::Symbols;
use kestrel_trace::syscall::Meaning;

fn sample_reader(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(sample::info(), vec![("main_0".into(), bytes)])
}

#[test]
fn text_looks_as_it_should() {
    let bytes = sealed(&mut sample::streams(8).remove(1).ring);
    let mut out = Vec::new();
    for nanoseconds in [false, true] {
        let mut reader = sample_reader(&bytes);
        let mut printer = Text::new(
            Style {
                nanoseconds,
                ..Style::default()
            },
            sample::symbols(),
            sample::processes(),
        );
        assert_eq!(all(&mut reader, &mut printer, &mut out, "memory").unwrap(), 8);
    }
    testkit::golden("tests/golden/lines.txt", &String::from_utf8(out).unwrap());
}

#[test]
fn json_looks_as_it_should_and_any_parser_takes_it() {
    let bytes = sealed(&mut sample::streams(8).remove(1).ring);
    let mut reader = sample_reader(&bytes);
    let mut printer = Json::new(sample::symbols(), sample::processes());
    let mut out = Vec::new();
    all(&mut reader, &mut printer, &mut out, "memory").unwrap();
    let out = String::from_utf8(out).unwrap();
    for line in out.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["time"].is_u64() && object["fields"].is_object(), "{line}");
    }
    let first: serde_json::Value = serde_json::from_str(out.lines().nth(5).unwrap()).unwrap();
    assert_eq!(first["fields"]["name"], "x\"\\\ny");
    assert_eq!(first["fields"]["kstack"][0], "vfs_read+0x10");
    assert_eq!(first["fields"]["flags"], "O_A, B|%=:|ö");
    testkit::golden("tests/golden/lines.json", &out);
}

#[test]
fn a_report_counts_threads_where_that_is_asked_for() {
    let bytes = sealed(&mut sample::streams(8).remove(1).ring);
    let of = |also: &[&str]| {
        let options = Options {
            processes: sample::processes(),
            also: also.iter().map(|&name| name.to_owned()).collect(),
            ..Options::default()
        };
        Report::read(&mut sample_reader(&bytes), options).unwrap()
    };
    assert!(of(&[]).table("threads").is_empty());
    let report = of(&["threads"]);
    let rows: Vec<(&str, u64)> = report
        .table("threads")
        .iter()
        .map(|row| (row.name.as_str(), row.count))
        .collect();
    assert_eq!(
        rows,
        [
            ("<...>-7 (7)", 2),
            ("<...>-9 (8)", 2),
            ("bash-100 (100)", 2),
            ("cat-101 (100)", 2)
        ]
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["threads"][3]["name"], "cat-101 (100)");
    assert_eq!(json["cpus"][0]["count"], 8);
}

#[test]
fn csv_has_a_column_for_each_field_of_any_event() {
    let bytes = sealed(&mut sample::streams(8).remove(1).ring);
    let of = |name: &str| {
        let mut export =
            (format(name).unwrap().new)(Style::default(), sample::symbols(), sample::processes());
        let mut out = Vec::new();
        all(&mut sample_reader(&bytes), export.as_mut(), &mut out, "memory").unwrap();
        String::from_utf8(out).unwrap()
    };
    let (table, objects) = (of("csv"), of("json"));
    let mut rows = csv::Reader::from_reader(table.as_bytes());
    let names = rows.headers().unwrap().clone();
    let mut compared = 0;
    for (row, object) in rows.records().zip(objects.lines()) {
        let row = row.unwrap();
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        let cell = |name: &str| names.iter().position(|known| known == name).map(|at| &row[at]);
        for name in ["time", "cpu", "pid", "tid"] {
            assert_eq!(cell(name).unwrap(), object[name].to_string());
        }
        assert_eq!(cell("event").unwrap(), object["event"]);
        let fields = object["fields"].as_object().unwrap();
        for (name, value) in fields
            .iter()
            .filter(|(_, value)| value.is_i64() || value.is_u64())
        {
            assert_eq!(cell(name).unwrap(), value.to_string(), "{name}");
            compared += 1;
        }
        let empty = names
            .iter()
            .skip(6)
            .filter(|name| !fields.contains_key(name.strip_prefix("args.").unwrap_or(name)));
        assert!(empty.into_iter().all(|name| cell(name) == Some("")));
    }
    assert!(compared >= 8, "{compared}");
    assert_eq!(table.lines().count(), 9);
    testkit::golden("tests/golden/lines.csv", &table);
}

#[test]
fn a_report_counts_every_record_and_looks_as_it_should() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 700);
    let report = directory::open(dir.path())
        .unwrap()
        .report(Some("caller".into()))
        .unwrap();
    assert_eq!(report.records, 2100);
    assert!(report.tables.len() >= 3);
    for table in &report.tables {
        assert_eq!(table.rows.iter().map(|row| row.count).sum::<u64>(), 2100);
    }
    assert_eq!(report.timeline.counts.iter().sum::<u64>(), 2100);
    assert_eq!((report.lost(), report.overwritten()), (12, 1234));
    testkit::golden("tests/golden/report.txt", &text(&report, 90, false));
    testkit::golden("tests/golden/report-colour.txt", &text(&report, 60, true));
    for line in text(&report, 90, false).lines() {
        assert!(line.chars().count() <= 90, "{line:?}");
    }
}

#[test]
fn an_empty_trace_has_a_report() {
    let finished = Options {
        summary: Some(Summary::default()),
        ..Options::default()
    };
    for (options, end) in [
        (finished, "lost 0\n".to_owned()),
        (Options::default(), format!("lost 0\n  {UNFINISHED}\n")),
    ] {
        let report = Report::read(&mut sample_reader(&[]), options).unwrap();
        assert_eq!(report.records, 0);
        let text = text(&report, 80, false);
        assert!(text.starts_with("0 events") && text.ends_with(&end), "{text}");
    }
}

/// Ends a line, names the window, turns the direction of reading.
const EVIL: &str = "x\x1b]0;owned\x07\n\u{202e}\u{9b}2J";

#[test]
fn nothing_that_others_have_named_reaches_a_terminal_as_it_is() {
    let mut info = sample::info();
    for text in [
        &mut info.hostname,
        &mut info.kernel_release,
        &mut info.command,
        &mut info.session,
    ] {
        *text = EVIL.to_owned();
    }
    for event in &mut info.events {
        event.name += EVIL;
    }
    let mut processes = sample::processes();
    let mut symbols = String::new();
    for line in sample::symbols().to_text().lines() {
        symbols += &format!("{line}\u{202e}\n");
    }
    let symbols = kestrel_trace::symbol::Symbols::parse(&symbols).unwrap();
    for tid in 0..5000 {
        processes.insert(tid, EVIL.to_owned());
    }
    let bytes = sealed(&mut sample::streams(8).remove(1).ring);
    let reader = || Reader::new(info.clone(), vec![("main_0".into(), &bytes[..])]);
    let calm = |text: &str, what: &str| {
        let bad = |c: char| c != '\n' && (c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c));
        assert!(!text.contains(bad), "{what}: {text:?}");
    };
    let mut lines = [Vec::new(), Vec::new()];
    let mut printer = Text::new(Style::default(), symbols.clone(), processes.clone());
    all(&mut reader(), &mut printer, &mut lines[0], "memory").unwrap();
    let mut printer = Json::new(symbols.clone(), processes.clone());
    all(&mut reader(), &mut printer, &mut lines[1], "memory").unwrap();
    let [lines, json] = lines.map(|lines| String::from_utf8(lines).unwrap());
    calm(&lines, "print");
    assert!(lines.contains(r"x\x1b]0;owned\x07\x0a\u202e\x9b2J"), "{lines}");
    assert!(lines.contains(r"\u202e+0x"), "symbols: {lines}");
    calm(&json, "print --format json");
    for line in json.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            object["event"].as_str().unwrap().ends_with(EVIL),
            "it is all there: {line}"
        );
    }
    let options = Options {
        processes,
        symbols,
        ..Options::default()
    };
    let report = Report::read(&mut reader(), options).unwrap();
    let shown = text(&report, 90, false);
    calm(&shown, "report");
    assert!(!shown.lines().any(|line| line.starts_with("owned")), "{shown}");
}

/// Two fields of one name have a column each, one that is named like a column of every record another name, and no name makes a line or a column.
#[test]
fn names_of_others_do_not_shift_columns_of_csv() {
    let number = || sample::integer(1, false, Base::Decimal);
    let event = sample::class(
        1,
        "tracepoint",
        "a:\x1b\n,b",
        vec![("n", number()), ("n", number()), ("pid", number())],
    );
    let bytes = record(&event, 0, 4, 5, &[7, 8, 9].map(Cell::U));
    let mut processes = Processes::default();
    processes.insert(5, "x,\ny");
    let mut csv = (format("csv").unwrap().new)(Style::default(), Symbols::default(), processes);
    let mut out = Vec::new();
    csv.begin(&[&event], &mut out);
    let table = EventTable::new([event.clone()]);
    csv.record(&table.record(&bytes, 2, 3).unwrap(), &mut out);
    csv.finish(&mut out);
    let out = String::from_utf8(out).unwrap();
    let (head, line) = out.split_once('\n').unwrap();
    assert_eq!(head, "time,cpu,pid,tid,comm,event,n,n,args.pid");
    assert!(
        line.ends_with(",4,5,\"x,\\x0ay\",\"a:\\x1b\\x0a,b\",7,8,9\n"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
}

/// In every JSON an integer is a number, digit by digit, however large.
#[test]
fn integers_are_exact_numbers_in_every_json() {
    let number = |signed, base| FieldType::Integer {
        size: 8,
        signed,
        base,
    };
    let names: Names = [(1, "ONE".to_owned())].into();
    let enumeration = |signed| FieldType::Enumeration {
        size: 8,
        signed,
        names: names.clone(),
    };
    let types = [
        ("u", number(false, Base::Decimal)),
        ("x", number(false, Base::Hexadecimal)),
        ("i", number(true, Base::Decimal)),
        ("o", number(true, Base::Octal)),
        ("e", enumeration(false)),
        ("s", enumeration(true)),
    ];
    let values = [0, 1 << 53, (1 << 53) + 1, i64::MAX as u64, 1 << 63, u64::MAX];
    let shown = |name: &str, value: u64| match name {
        "i" | "o" | "s" => (value as i64).to_string(),
        _ => value.to_string(),
    };
    let event = EventClass {
        id: EventId(1),
        name: "a:b".into(),
        kind: "tracepoint".into(),
        layout: Layout::new(types.clone().map(|(name, ty)| (name.to_owned(), ty))),
        action: None,
        print: None,
    };
    let table = EventTable::new([event.clone()]);
    for value in values {
        let bytes = record(&event, 0, 1, 1, &[0; 6].map(|_| Cell::U(value)));
        let mut line = Vec::new();
        Json::new(Symbols::default(), Processes::default())
            .record(&table.record(&bytes, 0, 0).unwrap(), &mut line);
        let line = String::from_utf8(line).unwrap();
        for (name, ty) in &types {
            let digits = shown(name, value);
            assert!(line.contains(&format!("\"{name}\":{digits}")), "{name}: {line}");
            let map = MapType {
                name: "m".to_owned(),
                number: 0,
                keys: vec![],
                value: ValueKind::Scalar(ty.clone()),
                entries: 1,
                evicts: false,
                generations: true,
                marks: false,
                by_event: false,
                first: String::new(),
            };
            let held = Snapshot::new(&map, &[], [(vec![0; 4], [&value.to_le_bytes()[..]])]);
            let json = aggregate::json(&held, &Symbols::default()).to_string();
            assert!(json.contains(&format!("\"@m\":{digits}}}")), "{name}: {json}");
        }
    }
}

/// A thread may have any bytes as its name: they are kept by the file, spelled out in lines, and valid in JSON.
#[test]
fn names_that_are_not_utf8() {
    const NAME: &[u8] = b"na\xffme\xc3";
    let event = sample::class(
        1,
        "tracepoint",
        "a:b",
        vec![("n", sample::integer(1, false, Base::Decimal))],
    );
    let bytes = record(&event, 0, 4, 5, &[Cell::U(7)]);
    let mut processes = Processes::default();
    processes.insert(5, NAME);
    let processes = Processes::parse(&processes.to_lines()).unwrap();
    assert_eq!(processes.name_bytes(5, 4), Some(NAME));
    assert_eq!(processes.name(5, 4), Some(r"na\xffme\xc3"));
    for (name, wanted) in [
        ("text", r"na\xffme\xc3-5"),
        ("tracefs", r"na\xffme\xc3-5"),
        ("perf-script", r"na\xffme\xc3 "),
        ("csv", r",4,5,na\xffme\xc3,"),
        ("json", "\"comm\":\"na\u{fffd}me\u{fffd}\""),
    ] {
        let mut export = (format(name).unwrap().new)(Style::default(), Symbols::default(), processes.clone());
        let mut out = Vec::new();
        export.begin(&[&event], &mut out);
        let table = EventTable::new([event.clone()]);
        export.record(&table.record(&bytes, 2, 3).unwrap(), &mut out);
        export.finish(&mut out);
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(wanted), "{name}: {out}");
    }
}

/// A device's two numbers stand in lines and in CSV as perf and trace-cmd print them; it is a number in JSON.
#[test]
fn devices_as_other_tracers_print_them() {
    let device = FieldType::Integer {
        size: 4,
        signed: false,
        base: Base::Named(Meaning::KernelDevice),
    };
    let event = sample::class(1, "tracepoint", "block:block_rq_issue", vec![("dev", device)]);
    let bytes = record(&event, 0, 4, 5, &[Cell::U(254 << 20 | 16)]);
    for (name, wanted) in [
        ("text", "block_rq_issue: dev=254,16\n"),
        ("perf-script", "block_rq_issue: dev=254,16\n"),
        ("csv", ",\"254,16\"\n"),
        ("json", "{\"dev\":266338320}"),
    ] {
        let mut export =
            (format(name).unwrap().new)(Style::default(), Symbols::default(), Processes::default());
        let mut out = Vec::new();
        export.begin(&[&event], &mut out);
        let table = EventTable::new([event.clone()]);
        export.record(&table.record(&bytes, 2, 3).unwrap(), &mut out);
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(wanted), "{name}: {out}");
    }
}
