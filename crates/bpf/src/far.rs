//! Jumps that span more than a 16-bit offset holds: they go from island to island, unconditional jumps between the instructions of the program.
//!
//! ```text
//!   if r1 == 7 goto A ──────────────┐
//!   …  (thousands of instructions)  │
//!   goto B      (over the island)   │
//!   A: goto target ◄────────────────┘   an island: a jump for each target beyond
//!   B: …
//! ```

use crate::code::Code;
use crate::error::Error;
use crate::insn::Insn;
use crate::isa::{self, Meaning};
use std::collections::{BTreeMap, HashSet};

/// A field that receives the distance to a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fixup {
    Offset,
    Immediate,
}

/// A jump or a call of a function of the program, and where it goes.
pub(crate) struct Jump {
    pub(crate) insn: usize,
    pub(crate) target: usize,
    pub(crate) fixup: Fixup,
}

/// Instructions from one island to the next, at least.
const ISLAND_SPACING: usize = 6000;
/// Longest distance of a jump, islands not counted: the rest of a 16-bit offset is for them.
const REACH: usize = 20_000;

/// Fills in the offsets of jumps; where one spans too much, islands are put in and everything behind them moves.
pub(crate) fn resolve(mut code: Code, mut jumps: Vec<Jump>) -> Result<Code, Error> {
    let fits = |jump: &Jump| {
        let distance = jump.target as i64 - jump.insn as i64 - 1;
        matches!(jump.fixup, Fixup::Immediate) || i16::try_from(distance).is_ok()
    };
    let islands = match jumps.iter().all(fits) {
        true => BTreeMap::new(),
        false => islands(&code, &jumps),
    };
    let (moved, sites) = insert_islands(&mut code, &islands);
    for jump in &mut jumps {
        let (from, to) = (jump.insn, jump.target);
        let next = next_site(&islands, from, to).filter(|_| matches!(jump.fixup, Fixup::Offset));
        let target = match next.and_then(|site| sites.get(&(site, to))) {
            Some(entry) => *entry,
            None => moved[to],
        };
        fill(&mut code, moved[from], target, jump.fixup)?;
    }
    for (site, targets) in &islands {
        for to in targets {
            let Some(entry) = sites.get(&(*site, *to)) else {
                continue;
            };
            let next = next_site(&islands, *site, *to).and_then(|next| sites.get(&(next, *to)));
            fill(
                &mut code,
                *entry,
                next.copied().unwrap_or(moved[*to]),
                Fixup::Offset,
            )?;
        }
    }
    Ok(code)
}

fn fill(code: &mut Code, insn: usize, target: usize, fixup: Fixup) -> Result<(), Error> {
    let distance = target as i64 - insn as i64 - 1;
    let too_far = |_| Error::JumpTooFar { insn, distance };
    let Some(at) = code.insns.get_mut(insn) else {
        return Ok(());
    };
    match fixup {
        Fixup::Offset => at.off = i16::try_from(distance).map_err(too_far)?,
        Fixup::Immediate => at.imm = i32::try_from(distance).map_err(too_far)?,
    }
    Ok(())
}

/// Targets by island; an island stands before the instruction of this number.
type Islands = BTreeMap<usize, Vec<usize>>;

/// The farthest island on the way from an instruction to a target that is out of its reach.
fn next_site(islands: &Islands, from: usize, to: usize) -> Option<usize> {
    if from.abs_diff(to) <= REACH {
        return None;
    }
    match from < to {
        true => islands.range(from + 1..=from + REACH).next_back(),
        false => islands.range(from.saturating_sub(REACH)..from).next(),
    }
    .map(|(site, _)| *site)
}

/// Where islands are, and which targets each serves.
fn islands(code: &Code, jumps: &[Jump]) -> Islands {
    let mut islands: Islands = island_sites(code)
        .into_iter()
        .map(|site| (site, Vec::new()))
        .collect();
    let mut known = HashSet::new();
    for jump in jumps.iter().filter(|jump| matches!(jump.fixup, Fixup::Offset)) {
        let mut from = jump.insn;
        while let Some(site) = next_site(&islands, from, jump.target) {
            if known.insert((site, jump.target))
                && let Some(targets) = islands.get_mut(&site)
            {
                targets.push(jump.target);
            }
            from = site;
        }
    }
    islands.retain(|_, targets| !targets.is_empty());
    islands
}

/// Places for islands: where no 64-bit load is torn, behind a jump or an exit if there is one near.
fn island_sites(code: &Code) -> Vec<usize> {
    let mut sites = Vec::new();
    let mut wanted = ISLAND_SPACING;
    let mut second = false;
    for (index, insn) in code.insns.iter().enumerate() {
        let torn = second;
        second = !torn && is_wide(insn);
        let free = index > 0 && never_falls_through(&code.insns[index - 1]);
        if !torn && (index >= wanted && free || index >= wanted + ISLAND_SPACING) {
            sites.push(index);
            wanted = index + ISLAND_SPACING;
        }
    }
    sites
}

fn is_wide(insn: &Insn) -> bool {
    matches!(isa::row(insn).map(|row| row.meaning), Some(Meaning::Load64(_)))
}

/// Whether what follows is reached by jumps only.
fn never_falls_through(insn: &Insn) -> bool {
    matches!(
        isa::row(insn).map(|row| row.meaning),
        Some(Meaning::Goto | Meaning::Exit)
    )
}

/// Puts islands in; gives where each instruction is now, and where each island has its jump to a target.
fn insert_islands(code: &mut Code, islands: &Islands) -> (Vec<usize>, BTreeMap<(usize, usize), usize>) {
    let old = std::mem::take(&mut code.insns);
    let mut moved = Vec::with_capacity(old.len() + 1);
    let mut entries = BTreeMap::new();
    for (index, insn) in old.iter().enumerate() {
        if let Some(targets) = islands.get(&index) {
            if !(index > 0 && never_falls_through(&old[index - 1])) {
                code.insns.extend(jump(targets.len() as i16));
            }
            for target in targets {
                entries.insert((index, *target), code.insns.len());
                code.insns.extend(jump(0));
            }
        }
        moved.push(code.insns.len());
        code.insns.push(*insn);
    }
    moved.push(code.insns.len());
    let now = |insn: &mut usize| *insn = moved.get(*insn).copied().unwrap_or(usize::MAX);
    code.relocations
        .iter_mut()
        .for_each(|relocation| now(&mut relocation.insn));
    code.lines.iter_mut().for_each(|line| now(&mut line.insn));
    code.callbacks.iter_mut().for_each(now);
    code.functions
        .iter_mut()
        .for_each(|function| now(&mut function.begin));
    (moved, entries)
}

fn jump(offset: i16) -> Option<Insn> {
    isa::row_of(Meaning::Goto).map(|row| row.encode(0, 0, offset, 0))
}

#[cfg(test)]
mod tests {
    use crate::asm::Assembler;
    use crate::interp::Machine;
    use crate::isa::Reg::{R0, R1, R2};
    use crate::isa::{Cond, Size};

    /// A program of so many parts of 100 instructions; which one is met is what it is given, and it says so.
    fn parts(count: i32) -> crate::code::Code {
        let mut asm = Assembler::new();
        let out = asm.label();
        let labels: Vec<_> = (0..count).map(|_| asm.label()).collect();
        asm.load(Size::DW, R1, R1, 0);
        for (number, label) in (0..).zip(&labels) {
            asm.jump_if(Cond::Eq, R1, number, *label);
        }
        asm.mov(R0, -1).jump(out);
        for (number, label) in (0..).zip(&labels) {
            asm.bind(*label);
            for _ in 0..49 {
                asm.constant(R2, 1 << 40);
            }
            asm.mov(R0, number).jump(out);
        }
        asm.bind(out).exit();
        asm.finish().unwrap()
    }

    #[test]
    fn jumps_go_as_far_as_there_are_instructions() {
        for count in [10, 300, 400, 2000] {
            let code = parts(count);
            let mut machine = Machine::new();
            let mut run = |wanted: i32| machine.run(&code, &i64::from(wanted).to_le_bytes()).unwrap();
            for wanted in [0, 1, count / 2, count - 1] {
                assert_eq!(run(wanted), wanted as u64, "of {count}");
            }
            assert_eq!(run(count + 7), u64::MAX);
        }
        assert_eq!(
            parts(10).insns.len(),
            1 + 10 + 2 + 10 * 100 + 1,
            "what fits stays as it is"
        );
    }
}
