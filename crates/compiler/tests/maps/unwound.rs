//! `dw_ustack` where it is held: stacks that programs unwind by tables.

use crate::sharing::Maps;
use kestrel_bpf::interp::Space;
use kestrel_compiler::unwind::{self, Entry, Rule};
use proptest::prelude::*;

/// Where the stack begins, and code without tables.
const STACK: u64 = 0x7ffe_0000_1000;
const OTHER: u64 = 0x7f00_0000_0000;
const OTHER_SIZE: u64 = 0x10_0000;
/// Where a file is mapped, and from which of its bytes on.
const CODE: u64 = 0x5555_0000_0000;
const OFFSET: u64 = 0x2000;

/// A process that has a file with these rows mapped, and executable memory of no file.
fn process(handlers: &[&str], rows: &[(u32, Rule)], size: u64) -> Maps {
    let mut maps = Maps::program(handlers);
    maps.machine.direct_kernel_reads = true;
    let mut rules = Vec::new();
    let mut numbered = Vec::new();
    for (at, rule) in rows {
        let number = rules.iter().position(|known| known == rule).unwrap_or_else(|| {
            rules.push(*rule);
            rules.len() - 1
        });
        numbered.push((*at, number as u32 + 1));
    }
    for (number, rule) in rules.iter().enumerate() {
        let encoded = rule.encoded().expect("offsets that fit");
        set(
            &mut maps,
            unwind::RULES,
            number as u32 + 1,
            &encoded.to_le_bytes(),
        );
    }
    set(&mut maps, unwind::CHUNKS, 3, &unwind::chunk(&numbered));
    let file = Entry {
        start: CODE,
        end: CODE + size,
        offset: OFFSET,
        chunk: 3,
        rows: rows.len() as u32,
    };
    let other = Entry {
        start: OTHER,
        end: OTHER + OTHER_SIZE,
        ..Entry::default()
    };
    let pid = maps.machine.environment.pid;
    set(
        &mut maps,
        unwind::PROCESSES,
        pid,
        &unwind::process(&[file, other]),
    );
    maps
}

#[track_caller]
fn set(maps: &mut Maps, name: &str, key: u32, value: &[u8]) {
    let map = maps.at(name).expect("the program unwinds");
    assert_eq!(maps.machine.set_value(map, &key.to_le_bytes(), 0, value), 0);
}

/// Runs the handlers where a process has these registers and this on its stack.
fn stop(maps: &mut Maps, [ip, sp, bp]: [u64; 3], stack: &[u64]) {
    let mut registers = [0_u64; 21];
    (registers[4], registers[16], registers[19]) = (bp, ip, sp);
    let bytes = |words: &[u64]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let at = maps.machine.environment.pt_regs;
    maps.machine.add_memory(Space::Kernel, at, &bytes(&registers));
    maps.machine.add_memory(Space::User, STACK, &bytes(stack));
    for handler in 0..maps.programs.len() {
        maps.run(handler, 0, &[]);
    }
}

/// The addresses of a printed stack.
fn frames(printed: &str) -> Vec<u64> {
    let lines = printed.lines().map(str::trim);
    lines
        .filter_map(|line| u64::from_str_radix(line, 16).ok())
        .collect()
}

const HELD: &str = "{ @ = dw_ustack(raw, 8) }";

#[test]
fn each_rule_leads_to_its_caller() {
    let rows = [
        (0x2000, Rule::Stack { cfa: 16, rbp: None }),
        (
            0x2100,
            Rule::Stack {
                cfa: 24,
                rbp: Some(-16),
            },
        ),
        (
            0x2200,
            Rule::Frame {
                cfa: 16,
                rbp: Some(-16),
            },
        ),
        (0x2300, Rule::Plt { pushed_at: 11 }),
        (0x2400, Rule::Signal { rsp: 8, rbp: 24 }),
        (0x2500, Rule::Frame { cfa: 24, rbp: None }),
        (0x2600, Rule::Gap),
        (0x2700, Rule::End),
        (0x2800, Rule::Stack { cfa: 8, rbp: None }),
    ];
    // Return addresses lie behind calls, a signal's where it came.
    let code = |place: u64| CODE + place - OFFSET;
    let at = |word: u64| STACK + word * 8;
    let stack = [
        0,
        code(0x2101), // 1: the caller of the first frame, by 16 from sp
        0,
        at(8),        // 3: rbp, 16 below the CFA
        code(0x2208), // 4: 24 from 2 words up
        0,
        0,
        0,
        at(20),       // 8: rbp, of a frame by rbp
        code(0x2401), // 9
        0,
        at(13),       // 11: saved rsp (8 from word 10)
        code(0x2300), // 12: saved rip, at the first byte of a stub: 8 from sp
        code(0x2508), // 13: saved rbp lies here too (24 from word 10)
        0,
        0,
    ];
    let mut maps = process(&[HELD, "{ @k[dw_ustack(raw, 3)] = count() }"], &rows, 0x1000);
    stop(&mut maps, [code(0x2000), STACK, 7], &stack);
    let wanted = [
        code(0x2000),
        code(0x2101),
        code(0x2208),
        code(0x2401),
        code(0x2300),
        code(0x2508),
    ];
    assert_eq!(frames(&maps.text("")), wanted);
    assert_eq!(frames(&maps.text("k")), &wanted[..3]);
    assert!(maps.text("k").ends_with("]: 1\n"), "{}", maps.text("k"));
}

/// Stacks of one frame, and where each ends.
#[test]
fn stacks_end_where_nothing_leads_on() {
    let rows = [
        (0x2100, Rule::Gap),
        (0x2200, Rule::End),
        (0x2300, Rule::Stack { cfa: 8, rbp: None }),
    ];
    let code = |place: u64| CODE + place - OFFSET;
    let by_rbp = [OTHER + 9, STACK + 32, OTHER + 5, 0, 0, OTHER + 6, 0, 0];
    let found = |ip: u64, bp: u64, stack: &[u64]| {
        let mut maps = process(&[HELD], &rows, 0x1000);
        stop(&mut maps, [ip, STACK, bp], stack);
        frames(&maps.text(""))
    };
    let chain = |ip| vec![ip, OTHER + 5, OTHER + 6];
    // No rows of a mapping, and none before the first: by rbp.
    assert_eq!(found(OTHER + 1, STACK + 8, &by_rbp), chain(OTHER + 1));
    assert_eq!(found(code(0x2050), STACK + 8, &by_rbp), chain(code(0x2050)));
    // No function is described: a return address lies on top, then by rbp.
    assert_eq!(
        found(code(0x2180), STACK + 8, &by_rbp),
        [code(0x2180), OTHER + 9, OTHER + 5, OTHER + 6]
    );
    assert_eq!(found(code(0x2200), STACK + 8, &by_rbp), [code(0x2200)]);
    for (word, why) in [
        (0, "no address"),
        (0x1234, "no code"),
        (OTHER + OTHER_SIZE + 1, "behind code"),
    ] {
        assert_eq!(
            found(code(0x2300), STACK + 8, &[word, 0]),
            [code(0x2300)],
            "{why}"
        );
    }
    assert_eq!(
        found(code(0x2300), 0, &[]),
        [code(0x2300)],
        "a stack that cannot be read"
    );
    assert_eq!(
        found(0x1000, STACK + 8, &by_rbp),
        chain(0x1000),
        "code that was mapped since"
    );
    assert_eq!(found(0, STACK, &by_rbp), [] as [u64; 0], "a thread of the kernel");
    let mut unknown = process(&[HELD], &rows, 0x1000);
    unknown.machine.environment.pid += 1;
    stop(&mut unknown, [code(0x2180), STACK, STACK + 8], &by_rbp);
    assert_eq!(frames(&unknown.text("")), [code(0x2180)], "another process");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The row of an address is found as by looking at all of them: each row's rule leads to another word of the stack.
    #[test]
    fn rows_are_found_wherever_they_are(
        steps in prop::collection::vec(1_u32..9, 1..600),
        wanted in prop::collection::vec(any::<u32>(), 4),
    ) {
        let mut at = OFFSET as u32 + 3;
        let mut rows = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            rows.push((at, Rule::Stack { cfa: (number as i32 + 1) * 8, rbp: None }));
            at += step;
        }
        let stack: Vec<u64> = (0..rows.len() as u64).map(|word| OTHER + 1 + word).collect();
        let size = u64::from(at) - OFFSET + 8;
        for wanted in wanted {
            let ip = CODE + u64::from(wanted) % size;
            let place = (ip - CODE + OFFSET) as u32;
            let mut maps = process(&["{ @ = dw_ustack(raw, 2) }"], &rows, size);
            stop(&mut maps, [ip, STACK, 0], &stack);
            let row = rows.iter().rposition(|(at, _)| *at <= place);
            let caller = row.map(|row| stack[row]);
            let wanted: Vec<u64> = [ip].into_iter().chain(caller).collect();
            prop_assert_eq!(frames(&maps.text("")), wanted);
        }
    }
}
