//! Gives each virtual register a place: in the order in which their lives begin, with hints so that copies and moves to arguments vanish.
//!
//! Where there are too few registers, the least wanted values are moved to memory by rewriting the code ([`super::spill`]), and all
//! begins again; values that live for one operation only are never moved, so it ends.

use super::live::{Live, Range, arguments};
use super::spill::{Part, Spills};
use crate::ir::{BlockId, Function, Op, Vreg};
use kestrel_bpf::isa::Reg;

/// Location of a virtual register, for all of its life.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Location {
    /// The register never occurs.
    Nowhere,
    /// In a machine register.
    Reg(Reg),
    /// Nowhere: this operation makes it again wherever it is read.
    Again(Op),
}

/// The places of all registers.
pub(crate) struct Allocation {
    /// By virtual register.
    pub(crate) places: Vec<Location>,
}

/// A set of machine registers, a bit each.
type Mask = u16;

fn bit(reg: Reg) -> Mask {
    1 << reg.number()
}

/// Registers 0 to 5, which every call loses.
const LOST: Mask = 0x3f;
/// All that can be given away: 0 to 9.
const ALL: Mask = 0x3ff;
/// Registers that calls leave alone come last, so that short-lived values do not occupy them.
const PREFERENCE: [Reg; 10] = [
    Reg::R0,
    Reg::R5,
    Reg::R4,
    Reg::R3,
    Reg::R2,
    Reg::R1,
    Reg::R6,
    Reg::R7,
    Reg::R8,
    Reg::R9,
];

/// Finds a place for every register, rewriting the function where there are too few.
pub(crate) fn allocate(function: &mut Function) -> (Live, Allocation) {
    let mut spills = Spills::default();
    loop {
        let live = Live::of(function);
        let problem = Problem::of(function, &live, &spills);
        let scan = problem.scan();
        if scan.spilled.is_empty() {
            let places = problem.finish(&scan);
            return (live, Allocation { places });
        }
        let again = problem.again;
        let again = |v: Vreg| again.get(v.0 as usize).cloned().flatten();
        spills.split(function, &scan.spilled, &again);
    }
}

/// Input of the register scan.
struct Problem<'a> {
    live: &'a Live,
    spills: &'a Spills,
    /// Positions at which registers are lost, ascending.
    losses: Vec<(u32, Mask)>,
    /// By register: where it would like to be.
    hints: Vec<Hint>,
    /// By register: the operation that makes it again, if it is cheap and always the same.
    again: Vec<Option<Op>>,
    /// By register: read only where an address in the frame or a fresh load of a map costs nothing extra.
    free: Vec<bool>,
    /// By register: what having one is worth to it.
    worths: Vec<SpillWeight>,
}

/// Preferred location of a register.
#[derive(Clone, Default)]
struct Hint {
    /// In one of these, most wanted first.
    regs: Vec<Reg>,
    /// Where one of these is.
    like: Vec<Vreg>,
}

/// Spill weight of a register: whether it must be stored otherwise, then reads and writes per length.
type SpillWeight = (bool, u64);

/// Result of a register scan.
struct Scan {
    regs: Vec<Option<Reg>>,
    /// By machine register: when it was given to whom, by time. Stretches of one register have no position in common, so the order of their starts
    /// is that of their ends.
    tenants: [Vec<(Range, Vreg)>; 10],
    spilled: Vec<Vreg>,
}

impl Scan {
    fn move_in(&mut self, v: Vreg, reg: Reg, stretches: &[Range]) {
        self.regs[v.0 as usize] = Some(reg);
        let tenants = &mut self.tenants[reg as usize];
        for range in stretches {
            // Lives are looked at by their beginnings: most come last.
            let at = tenants.partition_point(|(known, _)| known.start < range.start);
            tenants.insert(at, (*range, v));
        }
    }

    fn move_out(&mut self, v: Vreg, reg: Reg) {
        self.regs[v.0 as usize] = None;
        self.tenants[reg as usize].retain(|(_, tenant)| *tenant != v);
    }

    /// The values that have a register during any of these stretches, some several times.
    fn in_the_way(&self, reg: Reg, stretches: &[Range]) -> impl Iterator<Item = Vreg> {
        let tenants = self.tenants[reg as usize].as_slice();
        stretches.iter().flat_map(move |range| {
            let end = tenants.partition_point(|(known, _)| known.start <= range.end);
            let before_its_end = tenants[..end].iter().rev();
            let there = before_its_end.take_while(|(known, _)| known.end >= range.start);
            there.map(|(_, tenant)| *tenant)
        })
    }
}

impl<'a> Problem<'a> {
    fn of(function: &Function, live: &'a Live, spills: &'a Spills) -> Self {
        let n = function.vregs as usize;
        let mut problem = Self {
            live,
            spills,
            losses: Vec::new(),
            hints: vec![Hint::default(); n],
            again: vec![None; n],
            free: vec![true; n],
            worths: Vec::new(),
        };
        let mut definitions = vec![0u32; n];
        if let Some(context) = function.context {
            problem.hints[context.0 as usize].regs.push(Reg::R1);
            definitions[context.0 as usize] = 1;
        }
        for (id, first) in live.order.iter().zip(&live.first) {
            problem.look_at(function, *id, *first, &mut definitions);
        }
        for (v, count) in definitions.iter().enumerate() {
            if *count != 1 {
                problem.again[v] = None;
            }
            problem.free[v] &= matches!(
                problem.again[v],
                Some(Op::SlotAddress { .. } | Op::Map { .. } | Op::MapValue { .. })
            );
        }
        problem.worths = (0..function.vregs).map(|v| problem.find_worth(Vreg(v))).collect();
        problem
    }

    fn look_at(&mut self, function: &Function, id: BlockId, first: u32, definitions: &mut [u32]) {
        let block = function.block(id);
        for (n, inst) in (first..).zip(&block.insts) {
            let op = &inst.op;
            if let Some(dst) = op.def() {
                let dst = dst.0 as usize;
                definitions[dst] += 1;
                if matches!(
                    op,
                    Op::Const { .. } | Op::SlotAddress { .. } | Op::Map { .. } | Op::MapValue { .. }
                ) {
                    self.again[dst] = Some(op.clone());
                }
            }
            self.hint(op);
            self.note_uses(op);
            if op.is_call() {
                self.losses.push((n * 4 + 1, LOST));
            } else if matches!(op, Op::CompareExchange { .. }) {
                self.losses.push((n * 4 + 1, bit(Reg::R0)));
            }
        }
        for v in block.end.iter().flat_map(crate::ir::End::uses) {
            self.free[v.0 as usize] = false;
        }
    }

    fn hint(&mut self, op: &Op) {
        for (arg, reg) in arguments(op)
            .iter()
            .zip([Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5])
        {
            if let Some(v) = arg.vreg() {
                self.hints[v.0 as usize].regs.push(reg);
            }
        }
        let mut alike = |a: Vreg, b: Vreg| {
            self.hints[a.0 as usize].like.push(b);
            self.hints[b.0 as usize].like.push(a);
        };
        match op {
            Op::Copy { dst, src } | Op::Extend { dst, src, .. } | Op::SwapBytes { dst, src, .. } => {
                alike(*dst, *src)
            }
            Op::Alu { dst, left, .. } => alike(*dst, *left),
            Op::Atomic {
                old: Some(dst),
                value,
                ..
            } => alike(*dst, *value),
            Op::CompareExchange { dst, expected, .. } => {
                self.hints[dst.0 as usize].regs.push(Reg::R0);
                self.hints[expected.0 as usize].regs.push(Reg::R0);
            }
            _ if op.is_call() => {
                if let Some(dst) = op.def() {
                    self.hints[dst.0 as usize].regs.push(Reg::R0);
                }
            }
            _ => {}
        }
    }

    /// An address in the frame serves as a base as it is, and any cheap value as an argument.
    fn note_uses(&mut self, op: &Op) {
        let in_frame = |again: &Option<Op>| matches!(again, Some(Op::SlotAddress { .. }));
        match op {
            Op::Helper { .. } | Op::Kfunc { .. } | Op::Call { .. } => {}
            Op::Load { base, .. } => {
                let base = base.0 as usize;
                self.free[base] &= in_frame(&self.again[base]);
            }
            Op::Store { base, value, .. } => {
                if let Some(v) = value.vreg() {
                    self.free[v.0 as usize] = false;
                }
                let base = base.0 as usize;
                self.free[base] &= in_frame(&self.again[base]);
            }
            other => other.uses().for_each(|v| self.free[v.0 as usize] = false),
        }
    }

    /// Registers lost while the value is needed.
    fn lost_during(&self, v: Vreg) -> Mask {
        let stretches = &self.live.stretches[v.0 as usize];
        stretches
            .iter()
            .fold(0, |mask, range| mask | self.lost_in(*range))
    }

    /// Registers lost somewhere strictly inside the range.
    fn lost_in(&self, range: Range) -> Mask {
        let from = self.losses.partition_point(|(at, _)| *at <= range.start);
        let mut mask = 0;
        for (_, lost) in self.losses[from..].iter().take_while(|(at, _)| *at < range.end) {
            mask |= lost;
            if mask == LOST {
                break;
            }
        }
        mask
    }

    /// Gives each virtual register one of the machine's, or spills the least wanted ones in the way.
    fn scan(&self) -> Scan {
        let n = self.hints.len();
        let mut scan = Scan {
            regs: vec![None; n],
            tenants: Default::default(),
            spilled: Vec::new(),
        };
        let mut todo: Vec<(Range, Vreg)> = (0..n as u32)
            .filter(|v| !self.free[*v as usize])
            .filter_map(|v| self.live.ranges[v as usize].map(|range| (range, Vreg(v))))
            .collect();
        todo.sort_unstable_by_key(|(range, v)| (range.start, v.0));
        for (_, v) in todo {
            self.settle(&mut scan, v, ALL & !self.lost_during(v));
        }
        scan
    }

    fn settle(&self, scan: &mut Scan, v: Vreg, allowed: Mask) {
        let stretches = self.live.stretches[v.0 as usize].as_slice();
        let mut best: Option<(SpillWeight, Reg)> = None;
        let mut free = None;
        // Each is looked at once, where it is wanted most.
        let mut left = allowed;
        for reg in self.preferred(scan, v) {
            if left & bit(reg) == 0 {
                continue;
            }
            left &= !bit(reg);
            let tenants = scan.in_the_way(reg, stretches);
            match (tenants.map(|w| self.worth(w)).max(), best) {
                (None, _) => {
                    free = Some(reg);
                    break;
                }
                (Some(price), None) => best = Some((price, reg)),
                (Some(price), Some((least, _))) if price < least => best = Some((price, reg)),
                _ => {}
            }
        }
        if let Some(reg) = free {
            return scan.move_in(v, reg, stretches);
        }
        match best {
            Some((price, reg)) if price < self.worth(v) => {
                let mut losers: Vec<Vreg> = scan.in_the_way(reg, stretches).collect();
                losers.sort_unstable_by_key(|w| (self.live.ranges[w.0 as usize].map(|r| r.start), *w));
                losers.dedup();
                for loser in losers {
                    scan.move_out(loser, reg);
                    scan.spilled.push(loser);
                }
                scan.move_in(v, reg, stretches);
            }
            _ => scan.spilled.push(v),
        }
    }

    fn worth(&self, v: Vreg) -> SpillWeight {
        self.worths[v.0 as usize]
    }

    /// Spill weight of a register: reads and writes per length; nothing for values that are cheap to make again.
    fn find_worth(&self, v: Vreg) -> SpillWeight {
        let stretches = &self.live.stretches[v.0 as usize];
        let length: u32 = stretches.iter().map(|s| s.end - s.start + 1).sum();
        let weight = u64::from(self.live.weights[v.0 as usize]);
        let must = self.spills.part(v) == Part::Moment;
        (
            must || self.again[v.0 as usize].is_none(),
            if must {
                u64::MAX
            } else {
                (weight << 20) / u64::from(length.max(1))
            },
        )
    }

    /// All registers in the order in which the value prefers them.
    fn preferred<'s>(&'s self, scan: &'s Scan, v: Vreg) -> impl Iterator<Item = Reg> + use<'s, 'a> {
        let hint = &self.hints[v.0 as usize];
        let alike = hint.like.iter().filter_map(|other| scan.regs[other.0 as usize]);
        let second_hand = hint
            .like
            .iter()
            .flat_map(|other| &self.hints[other.0 as usize].regs);
        alike
            .chain(hint.regs.iter().copied())
            .chain(second_hand.copied())
            .chain(PREFERENCE)
    }

    fn finish(&self, scan: &Scan) -> Vec<Location> {
        let place = |(reg, again): (&Option<Reg>, &Option<Op>)| match (reg, again) {
            (Some(reg), _) => Location::Reg(*reg),
            (None, Some(op)) => Location::Again(op.clone()),
            (None, None) => Location::Nowhere,
        };
        scan.regs.iter().zip(&self.again).map(place).collect()
    }
}
