//! From instructions to text.

use super::{Piece, pieces};
use crate::code::{Code, Relocation, RelocationTarget};
use crate::helper::Helper;
use crate::insn::Insn;
use crate::isa::{self, Callee, Imm64, Meaning, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The whole program, with labels; maps are shown by their names in `maps`, or else by number.
///
/// ```
/// use kestrel_bpf::text;
/// let code = text::parse("r0 = 1\nif r1 != 0 goto out\nr0 = 2\nout:\nexit", &[])?;
/// assert_eq!(text::listing(&code, &[]), "  r0 = 1\n  if r1 != 0 goto L0\n  r0 = 2\nL0:\n  exit\n");
/// # Ok::<(), kestrel_bpf::Error>(())
/// ```
pub fn listing(code: &Code, maps: &[&str]) -> String {
    let labels = labels(code);
    let mut text = String::new();
    let mut lines = code.lines.iter().peekable();
    let mut at = 0;
    while at <= code.insns.len() {
        if let Some(label) = labels.get(&at) {
            text += &format!("{label}:\n");
        }
        while let Some(line) = lines.next_if(|line| line.insn <= at) {
            text += &format!("@{}..{}\n", line.source.start, line.source.end);
        }
        if at == code.insns.len() {
            break;
        }
        let (line, slots) = instruction_and_slots(code, at, &labels, maps);
        text += &format!("  {line}\n");
        at += slots;
    }
    text
}

/// The instruction at `at` by itself, jumps as `pc+3`; a 64-bit load takes its second slot from `code` too.
pub fn instruction(code: &Code, at: usize, maps: &[&str]) -> String {
    instruction_and_slots(code, at, &BTreeMap::new(), maps).0
}

/// Names for every place that is jumped to, in the program's order.
fn labels(code: &Code) -> BTreeMap<usize, String> {
    // A jump into the second slot of a 64-bit load has no line to name: it is written as a distance.
    let mut starts = vec![false; code.insns.len() + 1];
    let mut at = 0;
    while let Some(start) = starts.get_mut(at) {
        *start = true;
        at += row_at(code, at).map_or(1, Row::slots);
    }
    let targets = code.insns.iter().enumerate().filter_map(|(at, insn)| {
        let distance = match row_at(code, at)?.meaning {
            Meaning::Jump { .. } | Meaning::Goto => i64::from(insn.off),
            Meaning::GotoLong | Meaning::Call(Callee::Local) | Meaning::Load64(Imm64::Function) => {
                i64::from(insn.imm)
            }
            Meaning::Load64(
                Imm64::Plain
                | Imm64::Map
                | Imm64::MapValue
                | Imm64::BtfId
                | Imm64::MapIndex
                | Imm64::MapIndexValue,
            )
            | Meaning::Call(Callee::Helper | Callee::Kfunc)
            | Meaning::Alu { .. }
            | Meaning::Neg { .. }
            | Meaning::MovSigned { .. }
            | Meaning::Endian { .. }
            | Meaning::Load { .. }
            | Meaning::Store { .. }
            | Meaning::Atomic { .. }
            | Meaning::Exit => return None,
        };
        let target = usize::try_from(at as i64 + 1 + distance).ok()?;
        starts.get(target).copied().unwrap_or(false).then_some(target)
    });
    let places: std::collections::BTreeSet<usize> = targets.collect();
    places
        .into_iter()
        .enumerate()
        .map(|(number, at)| (at, format!("L{number}")))
        .collect()
}

/// The row of an instruction whose text says all of it: a 64-bit load whose second slot is not 0 where it must be has none.
fn row_at(code: &Code, at: usize) -> Option<&'static Row> {
    let insn = code.insns.get(at)?;
    let row = isa::row(insn)?;
    if insn.dst > 10 || (insn.src > 10 && row.src == isa::Field::Free) {
        return None;
    }
    if row.slots() == 2 {
        let second = code.insns.get(at + 1)?;
        let shown = row.text.contains("{l}") || row.text.contains("{v}");
        let expected = Insn {
            imm: if shown { second.imm } else { 0 },
            ..Insn::default()
        };
        if *second != expected {
            return None;
        }
    }
    Some(row)
}

fn instruction_and_slots(
    code: &Code,
    at: usize,
    labels: &BTreeMap<usize, String>,
    maps: &[&str],
) -> (String, usize) {
    let insn = code.insns.get(at).copied().unwrap_or_default();
    let Some(row) = row_at(code, at) else {
        let Insn {
            code,
            dst,
            src,
            off,
            imm,
        } = insn;
        return (format!(".insn {code:#04x} {dst} {src} {off} {imm}"), 1);
    };
    let high = code.insns.get(at + 1).map_or(0, |second| second.imm);
    let target = code
        .relocations
        .binary_search_by_key(&at, |r: &Relocation| r.insn)
        .ok();
    let target = target.and_then(|i| code.relocations.get(i)).map(|r| &r.target);
    let jump = |distance: i64| match labels.get(&((at as i64 + 1 + distance) as usize)) {
        Some(label) => label.clone(),
        None => format!("pc{distance:+}"),
    };
    let mut text = String::new();
    for piece in pieces(row.text) {
        let letter = match piece {
            Piece::Literal(literal) => {
                text += literal;
                continue;
            }
            Piece::Operand(letter) => letter,
        };
        // Writing to a String cannot fail.
        let _ = match letter {
            'd' => write!(text, "r{}", insn.dst),
            'D' => write!(text, "w{}", insn.dst),
            's' => write!(text, "r{}", insn.src),
            'S' => write!(text, "w{}", insn.src),
            'o' => write!(text, "{:+}", insn.off),
            'j' => write!(text, "{}", jump(insn.off.into())),
            'J' => write!(text, "{}", jump(insn.imm.into())),
            'l' => write!(
                text,
                "{:#x}",
                u64::from(insn.imm as u32) | u64::from(high as u32) << 32
            ),
            'v' => write!(text, "+{}", high as u32),
            'm' => write!(text, "{}", map(target, insn.imm, maps)),
            'h' => match Helper(insn.imm as u32).name() {
                Some(name) => write!(text, "bpf_{name}"),
                None => write!(text, "#{}", insn.imm as u32),
            },
            'k' => match target {
                Some(RelocationTarget::Kfunc(name)) => write!(text, "{name}"),
                _ => write!(text, "#{}", insn.imm),
            },
            _ => write!(text, "{}", insn.imm),
        };
    }
    (text, row.slots())
}

fn map(target: Option<&RelocationTarget>, fd: i32, maps: &[&str]) -> String {
    match target {
        Some(RelocationTarget::Map(map) | RelocationTarget::MapValue(map)) => {
            match maps.get(map.0 as usize) {
                Some(name) => (*name).to_owned(),
                None => map.0.to_string(),
            }
        }
        _ => format!("fd {fd}"),
    }
}
