//! Tests of program text in both directions, by example and for every row of the instruction table.

use super::*;
use crate::Error;
use crate::code::{Code, MapRef, Relocation, RelocationTarget};
use crate::insn::Insn;
use crate::isa::{Field, TABLE};
use proptest::prelude::*;

const SAMPLE: &str = "\
@0..5
  r6 = r1
  r1 = map[counts]
  r2 = map_value[1] +16
L0:
  w3 s>>= 4
@7..9
  r3 = *(s16 *)(r6 -2)
  if r3 s< -1 goto L0
  if w3 & 7 goto L1
  r0 = atomic64_cmpxchg((u64 *)(r2 +0), r0, r3)
  lock *(u32 *)(r2 +8) += r3
  r4 = 0x123456789a ll
  *(u8 *)(r10 -1) = 255
  call bpf_ktime_get_ns
  call kfunc bpf_preempt_disable
  call func L1
  r1 = bswap32 r1
  r1 = -r1
L1:
  exit
";

#[test]
fn a_listing_reads_back_as_itself() {
    let code = parse(SAMPLE, &["counts"]).unwrap();
    assert_eq!(listing(&code, &["counts"]), SAMPLE);
    assert_eq!(
        code.relocations[0],
        Relocation {
            insn: 1,
            target: RelocationTarget::Map(MapRef(0))
        }
    );
    assert_eq!(
        code.relocations[1],
        Relocation {
            insn: 3,
            target: RelocationTarget::MapValue(MapRef(1))
        }
    );
    assert_eq!(code.lines.len(), 2);
    let numbered: String = SAMPLE
        .lines()
        .map(|l| l.strip_prefix("  ").unwrap_or(l))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(parse(&numbered, &["counts"]).unwrap(), code);
}

#[test]
fn the_verifiers_own_lines_are_read() {
    let code = parse(
        "3: r1 = *(u64 *)(r6 +112)  ; a comment\n4:  if r1 == 0x0 goto pc+1\n r2 = 0xffffffff\n exit",
        &[],
    );
    let code = code.unwrap();
    assert_eq!((code.insns[0].code, code.insns[0].off), (0x79, 112));
    assert_eq!(code.insns[1].off, 1);
    assert_eq!(code.insns[2].imm, -1);
    assert_eq!(instruction(&code, 1, &[]), "if r1 == 0 goto pc+1");
}

#[test]
fn errors_name_the_line() {
    for (text, line) in [
        ("r1 = 5\nr11 = 5", 2),
        ("r1 = w2", 1),
        ("call bpf_nothing", 1),
        ("r1 = -r2", 1),
        ("@1", 1),
    ] {
        match parse(text, &[]) {
            Err(Error::Text { line: found, .. }) => assert_eq!(found, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        parse("goto nowhere", &[]),
        Err(Error::UnboundLabel { insn: 0 })
    ));
}

/// A program of any instructions of the table, and of anything else.
fn any_code() -> impl Strategy<Value = Vec<Insn>> {
    let row = (
        0..TABLE.len(),
        0_u8..11,
        0_u8..11,
        any::<i16>(),
        any::<i32>(),
        any::<i32>(),
    );
    let known = row.prop_map(|(at, dst, src, off, imm, high)| {
        let row = &TABLE[at];
        let mut insns = vec![row.encode(dst, src, off, imm)];
        if row.slots() == 2 {
            let shown = row.text.contains("{l}") || row.text.contains("{v}");
            insns.push(Insn {
                imm: if shown { high } else { 0 },
                ..Insn::default()
            });
        }
        insns
    });
    let near = (0..TABLE.len(), 0_u8..11, -8_i16..8).prop_map(|(at, dst, off)| {
        let row = &TABLE[at];
        vec![row.encode(dst, 1, off, i32::from(off)); if row.slots() == 2 { 0 } else { 1 }]
    });
    let odd = any::<[u8; 8]>().prop_map(|bytes| vec![Insn::from_bytes(bytes)]);
    proptest::collection::vec(prop_oneof![4 => known, 4 => near, 1 => odd], 0..40).prop_map(|v| v.concat())
}

proptest! {
    #[test]
    fn any_program_survives_the_trip(insns in any_code()) {
        let code = Code { insns, ..Code::default() };
        let text = listing(&code, &[]);
        prop_assert_eq!(parse(&text, &[]).unwrap(), code, "{}", text);
    }

    #[test]
    fn any_text_is_survived(text in "[ -~\n]{0,80}") {
        let _ = parse(&text, &["m"]);
    }
}

#[test]
fn every_row_has_a_text_of_its_own() {
    for row in TABLE {
        let mut insns = vec![row.encode(3, 3, 5, 7)];
        insns.extend(vec![Insn::default(); row.slots() - 1]);
        let code = Code {
            insns,
            ..Code::default()
        };
        let text = instruction(&code, 0, &[]);
        assert!(!text.starts_with('.'), "{text}");
        assert_eq!(parse(&text, &[]).unwrap(), code, "{text}");
        assert!(row.dst != Field::Free || text.contains('3'), "{text}");
    }
}
