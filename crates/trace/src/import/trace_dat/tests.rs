//! Stacks and durations out of pages that are put together by hand.

use super::*;
use crate::convert::trace_dat::{COUNTED, LOST, option};
use crate::import::draft::Events as _;
use std::io::Write as _;

const PAGE: usize = 4096;
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// The events of the tests' files: one of its own, stacks, returns of functions.
const HIT: u16 = 40;
const STACK: u16 = 4;
const RETURN: u16 = 10;

fn formats() -> Vec<(String, LayoutFormat)> {
    let format = |system: &str, name: &str, id: u16, fields: &str| {
        let text = format!("name: {name}\nID: {id}\nformat:\n{COMMON}{fields}\nprint fmt: \"\"\n");
        (system.to_owned(), LayoutFormat::parse(&text).expect("a format"))
    };
    vec![
        format(
            "ftrace",
            "kernel_stack",
            STACK,
            "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:unsigned long caller[];\toffset:16;\tsize:0;\tsigned:0;\n",
        ),
        format(
            "ftrace",
            "funcgraph_exit",
            RETURN,
            "\tfield:unsigned long long calltime;\toffset:8;\tsize:8;\tsigned:0;\n\
             \tfield:unsigned long long rettime;\toffset:16;\tsize:8;\tsigned:0;\n",
        ),
        format(
            "a",
            "hit",
            HIT,
            "\tfield:int number;\toffset:8;\tsize:4;\tsigned:1;\n",
        ),
    ]
}

fn symbols() -> Symbols {
    Symbols::new([
        (0x1000, 0, "trace_event_raw_event_sched_switch", None),
        (0x1100, 0, "__schedule", None),
        (0x1200, 0, "__traceiter_sched_switch", None),
        (0x1300, 0, "ftrace_syscall_enter_not", None),
        (0x1400, 0, "ftrace_syscall_enter", None),
        (0x1500, 0, "schedule", None),
    ])
}

/// The entry of an event by a thread.
fn entry(number: u16, tid: u32, words: &[u64]) -> Vec<u8> {
    let mut bytes = [u32::from(number), tid].map(u32::to_le_bytes).concat();
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// A stack's entry, whose rest is not part of the stack.
fn stack(tid: u32, frames: &[u64]) -> Vec<u8> {
    let words = [&[frames.len() as u64], frames, &[0x77]].concat();
    entry(STACK, tid, &words)
}

/// A page with these entries; before it so many events were lost.
fn page(entries: &[Vec<u8>], lost: u64) -> Vec<u8> {
    let mut data = Vec::new();
    for entry in entries {
        data.extend_from_slice(&((entry.len() as u32 / 4) | (1 << 5)).to_le_bytes());
        data.extend_from_slice(entry);
    }
    let mut commit = data.len() as u64;
    if lost > 0 {
        commit |= LOST | COUNTED;
        data.extend_from_slice(&lost.to_le_bytes());
    }
    let mut page = [1000_u64, commit].map(u64::to_le_bytes).concat();
    page.extend(data);
    page.resize(PAGE, 0);
    page
}

/// The records of a CPU with these pages: which event, by whom, what was lost before, and the bytes behind those.
fn read(pages: &[Vec<u8>]) -> Vec<(u16, u32, u64, Vec<u64>)> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&pages.concat()).expect("written");
    let file = Arc::new(file);
    let shape = Shape::of(HEADER_PAGE, PAGE as u32).expect("a shape");
    let part = Part {
        buffer: String::new(),
        cpu: 0,
        at: 0,
        size: (pages.len() * PAGE) as u64,
        packed: false,
    };
    let formats = formats();
    let cpu = |table| {
        let pages = Pages::new(file.clone(), &part, head::Packing::None, shape.page);
        Cpu::new(0, pages, shape, Arc::new(table), 0)
    };
    let places = || Table {
        pid_at: 4,
        ..Table::default()
    };
    let mut table = Table {
        stack: stacks(
            StackEvent::of(&formats, &symbols()),
            std::slice::from_ref(&part),
            |_| cpu(places()),
        ),
        ..places()
    };
    for (system, format) in &formats {
        let id = format.id as u16;
        let has_stack = table.stack.is_some() && id != STACK;
        let entry = Entry::new(system, format, id, has_stack, &mut Vec::new());
        table.by_type.insert(id, entry);
    }
    let mut cpu = cpu(table);
    let mut draft = Draft::default();
    let mut records = Vec::new();
    while cpu.next(&mut draft).expect("read") {
        let words: Vec<u64> = draft
            .bytes()
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a word")))
            .collect();
        let tid = (words[1] >> 32) as u32;
        let rest = words.iter().skip(2).copied().collect();
        records.push((words[0] as u16, tid, draft.lost, rest));
    }
    assert_eq!(cpu.damage(), None);
    records
}

/// The frames behind a record's other fields.
fn frames(record: &(u16, u32, u64, Vec<u64>), of: usize) -> &[u64] {
    &record.3[record.3.len() - of..]
}

#[test]
fn a_stack_belongs_to_the_record_before_it() {
    let first = [entry(HIT, 5, &[1]), stack(5, &[0xa1, 0xa2]), entry(HIT, 6, &[2])];
    // The stack of a page's last record is on the next page.
    let second = [
        stack(6, &[0xb1]),
        entry(HIT, 5, &[3]),
        stack(7, &[0xc1]),
        entry(HIT, 5, &[4]),
    ];
    let records = read(&[page(&first, 0), page(&second, 0)]);
    let events: Vec<(u16, u32)> = records.iter().map(|record| (record.0, record.1)).collect();
    // That of another thread is a record of its own.
    assert_eq!(events, [(HIT, 5), (HIT, 6), (HIT, 5), (STACK, 7), (HIT, 5)]);
    assert_eq!(frames(&records[0], 2), [0xa1, 0xa2]);
    assert_eq!(frames(&records[1], 1), [0xb1]);
    assert_eq!(records[2].3.len(), records[4].3.len(), "neither has a stack");
    assert_eq!(records[1].3.len(), records[4].3.len() + 1);
}

#[test]
fn a_stack_begins_behind_the_tracer() {
    let stacks = [
        vec![0x1010, 0x1110, 0x1510],
        vec![0x1010, 0x12ff, 0x1110],
        vec![0x1410, 0x1510],
        // What is further out stays, and so does what is only called alike.
        vec![0x1110, 0x1010],
        vec![0x1310, 0x1510],
    ];
    let entries = stacks
        .iter()
        .flat_map(|frames| [entry(HIT, 5, &[1]), stack(5, frames)]);
    let records = read(&[page(&entries.collect::<Vec<_>>(), 0)]);
    let left = [
        &[0x1110, 0x1510][..],
        &[0x1110],
        &[0x1510],
        &[0x1110, 0x1010],
        &[0x1310, 0x1510],
    ];
    assert_eq!(records.len(), left.len());
    for (record, left) in records.iter().zip(left) {
        assert_eq!(frames(record, left.len()), left);
        assert!(
            !record.3.contains(&0x1010) || left.contains(&0x1010),
            "{record:x?}"
        );
    }
}

#[test]
fn a_stack_behind_lost_events_is_not_that_of_the_record_before_them() {
    let first = [entry(HIT, 5, &[1]), stack(5, &[0xa1]), entry(HIT, 5, &[2])];
    let second = [stack(5, &[0xb1]), entry(HIT, 5, &[3])];
    let records = read(&[page(&first, 0), page(&second, 9)]);
    let events: Vec<(u16, u64)> = records.iter().map(|record| (record.0, record.2)).collect();
    assert_eq!(events, [(HIT, 0), (HIT, 0), (STACK, 9), (HIT, 0)]);
}

#[test]
fn the_return_of_a_function_says_how_long_it_ran() {
    let records = read(&[page(
        &[
            entry(RETURN, 5, &[1000, 8861]),
            entry(RETURN, 5, &[9000, 8000]),
            entry(HIT, 5, &[1]),
        ],
        0,
    )]);
    let ran = |record: &(u16, u32, u64, Vec<u64>)| *record.3.last().expect("a field");
    assert_eq!((ran(&records[0]), ran(&records[1])), (7861, 0));
    // Where no stacks were recorded, records have no field for them.
    assert_eq!(records[2].3.len(), 1);
}

#[test]
fn a_file_says_the_time_of_day_and_what_its_clock_counts() {
    let head = |options: &[(u16, &str)]| {
        let mut head = Head::default();
        for (number, text) in options {
            head.option(*number, text.as_bytes());
        }
        head
    };
    let date = head(&[(option::DATE, "0x6615736cd5576\0")]);
    assert_eq!(date.clock.wall_ns, 1_795_877_069_739_382_000);
    assert!(date.remarks.is_empty());
    let wrong = head(&[(option::DATE, "noon\0")]);
    assert!(wrong.remarks[0].contains("noon"), "{:?}", wrong.remarks);
    let clock = |options: &[(u16, &str)]| head(options).clock_remark();
    let counter = "local global counter mono [x86-tsc]\n\0";
    assert!(
        clock(&[(option::TRACECLOCK, counter)])
            .unwrap()
            .contains("x86-tsc")
    );
    assert_eq!(clock(&[(option::TRACECLOCK, "local [mono] x86-tsc\n\0")]), None);
    let rate = "\u{1}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(
        clock(&[(option::TRACECLOCK, counter), (option::TSC2NSEC, rate)]),
        None
    );
}
