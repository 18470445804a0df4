//! Lines of `perf-script` as the importers of speedscope and of the Firefox Profiler take them: both find samples and frames by regular expressions, and
//! pass over what does not fit in silence. The rules here are theirs; the programs themselves were run by hand (docs/profiles.md).

use crate::pages::{Cell, record};
use crate::sample::{class, symbols};
use kestrel_trace::event::EventClass;
use kestrel_trace::export::{Style, format};
use kestrel_trace::layout::{FieldType, Frames as FramePlace, HeldStack, Space, StackMode};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::user_symbol::{Binary, Code, Inlined, Mapping, UserSymbols};
use regex::Regex;

/// A sample as a reader has it: thread, its number, the time, frames from the outermost on as `function (binary)`.
type Sample = (String, u32, f64, Vec<String>);

/// speedscope 1.25: blocks between empty lines, the head first, which begins with the name; one event only.
fn speedscope(text: &str) -> Vec<Sample> {
    let head = Regex::new(r"^(\S.+?)\s+(\d+)(?:/?(\d+))?\s+").unwrap();
    let time = Regex::new(r"\s+(\d+\.\d+):\s+").unwrap();
    let block = |block: &str| {
        let mut lines = block.lines();
        let first = lines.next()?;
        let named = head.captures(first)?;
        let when = time.captures(first)?[1].parse().unwrap();
        let mut frames: Vec<String> = lines.filter_map(frame).collect();
        frames.reverse();
        Some((named[1].to_owned(), named[2].parse().unwrap(), when, frames))
    };
    text.split("\n\n").filter_map(block).collect()
}

/// The Firefox Profiler: a line with a time is a head, all up to the next empty line its frames. It takes the file for what it is by the first line.
fn firefox(text: &str) -> Vec<Sample> {
    let first = Regex::new(r"^\S.*?\s+(?:\d+/)?\d+\s+(?:\[\d+\]\s+)?[\d.]+:").unwrap();
    assert!(first.is_match(text.lines().next().unwrap()), "{text}");
    let head = Regex::new(r"^(.*)\s+([\d.]+):").unwrap();
    let thread = Regex::new(r"^(.*)\s+(?:(\d+)/)?(\d+)\b").unwrap();
    let mut samples = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(timed) = head.captures(line) else {
            continue;
        };
        let Some(named) = thread.captures(&timed[1]) else {
            continue;
        };
        let stack = lines.by_ref().take_while(|line| !line.trim().is_empty());
        let mut frames: Vec<String> = stack.filter_map(frame).collect();
        frames.reverse();
        let name = named[1].trim().to_owned();
        samples.push((name, named[3].parse().unwrap(), timed[2].parse().unwrap(), frames));
    }
    samples
}

/// The rule that both have for frames.
fn frame(line: &str) -> Option<String> {
    let rule = Regex::new(r"^\s*(\w+)\s*(.+) \((\S*)\)").unwrap();
    let offset = Regex::new(r"\+0x[\da-f]+$").unwrap();
    let found = rule.captures(line)?;
    Some(format!("{} ({})", offset.replace(&found[2], ""), &found[3]))
}

fn sampled() -> EventClass {
    let stack = |space| FieldType::Stack { space, max: 8 };
    let fields = vec![("kstack", stack(Space::Kernel)), ("ustack", stack(Space::User))];
    class(1, "profile", "profile:hz:99", fields)
}

/// An event that has no stack.
fn stackless() -> EventClass {
    let path = FieldType::String { max: 64 };
    class(
        2,
        "tracepoint",
        "syscalls:sys_enter_openat",
        vec![("filename", path)],
    )
}

fn code() -> UserSymbols {
    let mut all = UserSymbols::default();
    let inlined = Inlined {
        function: "ns::twice(int)".into(),
        line: None,
    };
    let code = |at, function: &str, inlined| Code {
        at,
        function: function.into(),
        offset: 0x10,
        line: None,
        inlined,
    };
    let binary = all.add_binary(Binary {
        path: "/tmp/my tools/spin".into(),
        ..Binary::default()
    });
    let names = vec![
        code(0x198, "main", vec![]),
        code(0x1ff, "ns::run(int) const", vec![inlined]),
    ];
    all.add_code(binary, names, None);
    let mapping = Mapping {
        from_ns: 0,
        until_ns: u64::MAX,
        start: 0x5000,
        end: 0x6000,
        offset: 0,
        binary,
    };
    all.add_mapping(7, mapping);
    all
}

#[test]
fn speedscope_and_firefox_take_every_sample_and_frame() {
    let (sampled, stackless) = (sampled(), stackless());
    let mut names = Processes::default();
    names.insert(7, "opt cgu.10");
    names.insert(8, "V8 Worker 2");
    let make = format("perf-script").unwrap().new;
    let mut export = make(Style::default(), symbols().with_user(code()), names);
    let mut out = Vec::new();
    export.begin(&[&sampled, &stackless], &mut out);
    let frames = |all: &[u64]| Cell::A(all.to_vec());
    let kernel = [
        0xffff_ffff_8100_0010,
        0xffff_ffff_8100_2020,
        0xffff_ffff_0000_0000,
    ];
    let user = [0x5198, 0x5200, 0x5300, 0x9_0000];
    for (time, tid, event, cells) in [
        (5_000_001_000, 7, &sampled, vec![frames(&kernel), frames(&user)]),
        (
            5_000_002_000,
            7,
            &stackless,
            vec![Cell::T(b"/etc/a 12: (b)".to_vec())],
        ),
        (5_000_003_000, 8, &sampled, vec![frames(&[]), frames(&user[..1])]),
        (5_000_004_000, 8, &sampled, vec![frames(&[]), frames(&[])]),
        (
            5_000_005_000,
            9,
            &sampled,
            vec![frames(&kernel[..1]), frames(&[])],
        ),
    ] {
        let bytes = record(event, time, 7, tid, &cells);
        export.record(
            &Record {
                rest: &[],
                time_ns: time,
                cpu: 3,
                pid: 7,
                tid,
                event,
                bytes: &bytes,
                unwound: None,
            },
            &mut out,
        );
    }
    let text = String::from_utf8(out).unwrap();
    let all = [
        "[unknown] ([unknown])",
        "[unknown] (/tmp/my\\x20tools/spin+0x300)",
        "ns::run(int) const (/tmp/my\\x20tools/spin)",
        "ns::twice(int) (inlined)",
        "main (/tmp/my\\x20tools/spin)",
        "[unknown] ([kernel.kallsyms])",
        "ext4_file_read_iter ([ext4])",
        "vfs_read ([kernel.kallsyms])",
    ];
    let expected = |text: &str| {
        let samples = [
            ("opt cgu.10", 7, 5.000001, &all[..]),
            ("opt cgu.10", 7, 5.000002, &[]),
            ("V8 Worker 2", 8, 5.000003, &all[4..5]),
            ("V8 Worker 2", 8, 5.000004, &[]),
            ("opt cgu.10", 9, 5.000005, &all[7..]),
        ];
        let owned = samples.map(|(name, tid, time, frames)| {
            // speedscope's rule takes the first number for the thread's: that is so with perf's own lines, too.
            let name = if text == "speedscope" {
                name.trim_end_matches(" 2")
            } else {
                name
            };
            let tid = if name == "V8 Worker" { 2 } else { tid };
            let frames = frames.iter().map(|&frame| frame.to_owned()).collect();
            (name.to_owned(), tid, time, frames)
        });
        Vec::<Sample>::from(owned)
    };
    assert_eq!(speedscope(&text), expected("speedscope"), "{text}");
    // Where a text of the program's looks like a time, the line's last one counts: a sample without frames, which is left out.
    let mut seen = firefox(&text);
    seen.retain(|(.., frames)| !frames.is_empty());
    let mut wanted = expected("firefox");
    wanted.retain(|(.., frames)| !frames.is_empty());
    assert_eq!(seen, wanted, "{text}");
}

/// Stacks of a fixed number of bytes (`record(kstack)` in a script's tuple, say) are stacks, too.
#[test]
fn held_stacks_have_lines_of_frames() {
    let held = HeldStack {
        space: Space::Kernel,
        max: 3,
        mode: StackMode::Bpftrace,
        frames: FramePlace::Inline,
    };
    let event = class(
        1,
        "tracepoint",
        "a:b",
        vec![("stack", FieldType::HeldStack(held))],
    );
    let make = format("perf-script").unwrap().new;
    let mut export = make(Style::default(), symbols(), Processes::default());
    let mut out = Vec::new();
    export.begin(&[&event], &mut out);
    // Count, frames, process.
    let words = [2, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_2020, 0, 0];
    let bytes = record(&event, 5_000_001_000, 7, 7, &[Cell::A(words.to_vec())]);
    export.record(
        &Record {
            rest: &[],
            time_ns: 5_000_001_000,
            cpu: 3,
            pid: 7,
            tid: 7,
            event: &event,
            bytes: &bytes,
            unwound: None,
        },
        &mut out,
    );
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
    assert!(text.ends_with("\n\n"), "{text:?}");
    let [first, second, ""] = lines.as_slice() else {
        panic!("{text}")
    };
    assert!(first.starts_with("ffffffff81000010 vfs_read+"), "{text}");
    assert!(
        second.starts_with("ffffffff81002020 ext4_file_read_iter+"),
        "{text}"
    );
}
