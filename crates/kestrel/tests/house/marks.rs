//! Marks on the miniature kernel: which writes are any, and what is taken of them, on each way there is to see them.

use super::kernel::{self, words};
use super::run_on;
use kestrel::attach::{self, Mechanism};
use kestrel::catalog::Via;
use kestrel::plan::PlannedStrategy;
use kestrel_bpf::interp::{Machine, Space};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const FILE: u64 = 0xffff_8880_0003_0000;
const INODE: u64 = FILE + 0x100;
const SUPER_BLOCK: u64 = FILE + 0x200;
const OTHER_FILE: u64 = FILE + 0x300;
const OTHER_INODE: u64 = FILE + 0x400;
/// Positions in a file: 0, 5, and one behind all texts.
const POSITIONS: u64 = FILE + 0x500;
const REQUEST: u64 = FILE + 0x600;
const VECTORS: u64 = FILE + 0x700;
const TEXTS: u64 = 0x7f00_0001_0000;

/// Each at a place of its own, with nothing behind it.
const WRITTEN: [&[u8]; 6] = [
    b"plain",
    b"line\n",
    b"two\nlines\n",
    b"text\0a=1 b=2",
    b"\n",
    b"\x1b[31m",
];

fn text(number: u64) -> u64 {
    TEXTS + number * 0x1000
}

/// A tree with the device; none where this process may make no devices.
fn tree() -> Option<tempfile::TempDir> {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("dev")).unwrap();
    let made = Command::new("mknod")
        .arg(tree.path().join("dev/kestrel-mark"))
        .args(["c", "1", "3"])
        .output();
    let made = made.is_ok_and(|made| made.status.success());
    if !made {
        println!("skipped: only root may make a device");
    }
    made.then_some(tree)
}

fn fill(machine: &mut Machine, tree: &Path) {
    let node = std::fs::symlink_metadata(tree.join("dev/kestrel-mark")).unwrap();
    // `gnu_dev_major`, `gnu_dev_minor`, and the kernel's own `MKDEV`.
    let (major, minor) = (
        (node.dev() >> 8) & 0xfff,
        (node.dev() & 0xff) | ((node.dev() >> 12) & 0xf_ff00),
    );
    let mut put = |at: u64, values: &[u64]| machine.add_memory(Space::Kernel, at, &words(values));
    put(SUPER_BLOCK, &[major << 20 | minor]);
    put(INODE, &[node.ino(), SUPER_BLOCK]);
    put(OTHER_INODE, &[node.ino() + 1, SUPER_BLOCK]);
    put(FILE, &[INODE, 0]);
    put(OTHER_FILE, &[OTHER_INODE, 0]);
    put(POSITIONS, &[0, 5, 1 << 40]);
    put(REQUEST, &[FILE, 0]);
    let (one, empty, none) = ([text(0), 5], [text(1), 0], [0, 0]);
    put(VECTORS + 0x40, &[one, none].concat());
    put(VECTORS + 0x60, &[empty, one].concat());
    // By the kernel's own numbers: a buffer, a vector that begins with something, one that does not, and what is no vector.
    put(VECTORS, &[0, text(2), 10, 1]);
    put(VECTORS + 0x80, &[1, VECTORS + 0x40, 5, 2]);
    put(VECTORS + 0xa0, &[1, VECTORS + 0x60, 5, 2]);
    put(VECTORS + 0xc0, &[2, VECTORS + 0x60, 5, 2]);
    for (number, bytes) in (0..).zip(WRITTEN) {
        machine.add_memory(Space::User, text(number), bytes);
    }
}

fn by_trampoline(way: &PlannedStrategy) -> bool {
    matches!(way.mechanism, Mechanism::Trampoline(attach::Trampoline { .. })) && way.context.direct_loads
}

fn by_probing_trampoline(way: &PlannedStrategy) -> bool {
    matches!(way.mechanism, Mechanism::Trampoline(attach::Trampoline { .. })) && !way.context.direct_loads
}

fn by_kprobe(way: &PlannedStrategy) -> bool {
    matches!(way.mechanism, Mechanism::Functions(attach::Functions { .. }))
}

type Wanted = fn(&PlannedStrategy) -> bool;

/// And whether its program sees registers.
const WAYS: [(Wanted, bool); 3] = [
    (by_trampoline, false),
    (by_probing_trampoline, false),
    (by_kprobe, true),
];

/// Arguments as each way has them: words, or the registers of a call.
fn called(by_registers: bool, arguments: &[u64]) -> Vec<u8> {
    if !by_registers {
        return words(arguments);
    }
    // `struct pt_regs` of x86-64: di, si, dx, cx from the end backwards.
    let mut registers = [0; 21];
    for (place, value) in [14, 13, 12, 11].into_iter().zip(arguments) {
        registers[place] = *value;
    }
    words(&registers)
}

fn lines(event: &str, calls: &[&[u64]]) -> Option<Vec<Vec<String>>> {
    let tree = tree()?;
    let catalog = kernel::build(tree.path());
    let of_way = |(way, by_registers): (Wanted, bool)| {
        let contexts: Vec<Vec<u8>> = calls.iter().map(|call| called(by_registers, call)).collect();
        let printed = run_on(&catalog, (event, Via::Auto), way, &contexts, |m| {
            fill(m, tree.path())
        });
        let behind = |line: &str| line.split_once("mark").map(|(_, rest)| rest.to_owned());
        printed.text.lines().map(|line| behind(line).unwrap()).collect()
    };
    Some(WAYS.into_iter().map(of_way).collect())
}

#[test]
fn writes_to_the_device_are_marks_and_others_are_none() {
    let (at_0, at_5, far) = (POSITIONS, POSITIONS + 8, POSITIONS + 16);
    let calls: [&[u64]; 11] = [
        &[FILE, text(0), 5, at_0],
        &[OTHER_FILE, text(0), 5, at_0],
        &[FILE, text(1), 5, at_0],
        &[FILE, text(2), 10, at_0],
        &[FILE, text(3), 12, at_5],
        &[FILE, text(3), 12, far],
        &[FILE, text(4), 1, at_0],
        &[FILE, text(4), 0, at_0],
        &[FILE, text(5), 5, at_0],
        // Nothing is there; only what was said to be there is looked at.
        &[FILE, 4096, 8, at_0],
        &[FILE, text(0), 4, at_0],
    ];
    let Some(ways) = lines("mark", &calls) else { return };
    for lines in ways {
        assert_eq!(
            lines,
            [
                ": text=plain values=",
                ": text=line values=",
                r": text=two\x0alines values=",
                ": text=text values=a=1 b=2",
                ": text=text values=",
                ": text= values=",
                ": text= values=",
                r": text=\x1b[31m values=",
                ": text=(fault) values=",
                ": text=plai values=",
            ]
        );
    }
}

#[test]
fn of_a_vector_the_first_part_that_is_something_is_the_text() {
    let calls: [&[u64]; 4] = [
        &[REQUEST, VECTORS],
        &[REQUEST, VECTORS + 0x80],
        &[REQUEST, VECTORS + 0xa0],
        &[REQUEST, VECTORS + 0xc0],
    ];
    let Some(ways) = lines("mark:writev", &calls) else {
        return;
    };
    for lines in ways {
        let expected = [
            r":writev: text=two\x0alines",
            ":writev: text=plain",
            ":writev: text=plain",
            ":writev: text=",
        ];
        assert_eq!(lines, expected.map(|line| format!("{line} values=")));
    }
}

#[test]
fn predicates_see_the_texts() {
    let calls: [&[u64]; 2] = [&[FILE, text(0), 5, POSITIONS], &[FILE, text(1), 5, POSITIONS]];
    let event = "mark /str(args.text) == \"line\" && args.length == 5/ { record(t = args.text) }";
    let Some(ways) = lines(event, &calls) else { return };
    for lines in ways {
        assert_eq!(lines, [": t=line"]);
    }
}
