//! Gives each virtual register a place: linear scan over intervals, with hints so that copies and moves to arguments vanish.
//!
//! First without any reserve; only where some register must live in memory again with two (three, where there is a
//! compare-and-exchange) registers kept free to carry such values. Cheap values (constants, addresses of maps and frame
//! objects) are made again at each use rather than stored.

use super::live::{Live, Range, arguments};
use crate::ir::{BlockId, Function, Op, Vreg};
use kestrel_bpf::isa::Reg;

/// Where a virtual register lives, all of its life.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Location {
    /// Never occurs.
    Nowhere,
    /// In a machine register.
    Reg(Reg),
    /// In the spill slot of this number.
    Spill(u32),
    /// Nowhere: this operation makes it again wherever it is read.
    Again(Op),
}

/// The places of all registers.
pub(crate) struct Allocation {
    /// By virtual register.
    pub(crate) places: Vec<Location>,
    /// Number of spill slots of 8 bytes.
    pub(crate) spills: u32,
}

/// Free to carry a value between memory and an operation, where anything is spilled at all.
pub(crate) const CARRIERS: [Reg; 3] = [Reg::R0, Reg::R5, Reg::R4];

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

/// Finds a place for every register.
pub(crate) fn allocate(function: &Function, live: &Live) -> Allocation {
    let problem = Problem::of(function, live);
    let free = problem.scan(ALL);
    if free.spilled.is_empty() {
        return problem.finish(free);
    }
    let carriers = if problem.has_exchange { 3 } else { 2 };
    let reserved: Mask = CARRIERS[..carriers].iter().map(|r| bit(*r)).sum();
    problem.finish(problem.scan(ALL & !reserved))
}

/// What is known before scanning.
struct Problem<'a> {
    live: &'a Live,
    /// Positions at which registers are lost, ascending.
    losses: Vec<(u32, Mask)>,
    /// By register: where it would like to be.
    hints: Vec<Hint>,
    /// By register: the operation that makes it again, if it is cheap and always the same.
    again: Vec<Option<Op>>,
    /// By register: read only where an address in the frame or a fresh load of a map costs nothing extra.
    free: Vec<bool>,
    has_exchange: bool,
}

/// Where a register would like to be.
#[derive(Clone, Default)]
struct Hint {
    /// In one of these, most wanted first.
    regs: Vec<Reg>,
    /// Where one of these is.
    like: Vec<Vreg>,
}

/// One scan's result.
struct Scan {
    regs: Vec<Option<Reg>>,
    spilled: Vec<Vreg>,
}

impl<'a> Problem<'a> {
    fn of(function: &Function, live: &'a Live) -> Self {
        let n = function.vregs as usize;
        let mut problem = Self {
            live,
            losses: Vec::new(),
            hints: vec![Hint::default(); n],
            again: vec![None; n],
            free: vec![true; n],
            has_exchange: false,
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
                self.has_exchange = true;
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
            Op::Helper { .. } | Op::Kfunc { .. } => {}
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
            other => other
                .uses()
                .into_iter()
                .for_each(|v| self.free[v.0 as usize] = false),
        }
    }

    /// Registers lost somewhere strictly inside the range.
    fn lost_in(&self, range: Range) -> Mask {
        let from = self.losses.partition_point(|(at, _)| *at <= range.start);
        self.losses[from..]
            .iter()
            .take_while(|(at, _)| *at < range.end)
            .fold(0, |mask, (_, lost)| mask | lost)
    }

    /// Walks the intervals by their starts and gives each a register of `available`, or spills the least wanted one.
    fn scan(&self, available: Mask) -> Scan {
        let n = self.hints.len();
        let mut scan = Scan {
            regs: vec![None; n],
            spilled: Vec::new(),
        };
        let mut todo: Vec<(Range, Vreg)> = (0..n as u32)
            .filter(|v| !self.free[*v as usize])
            .filter_map(|v| self.live.ranges[v as usize].map(|range| (range, Vreg(v))))
            .collect();
        todo.sort_by_key(|(range, v)| (range.start, v.0));
        let mut active: Vec<(Range, Vreg, Reg)> = Vec::new();
        for (range, v) in todo {
            active.retain(|(other, ..)| other.end >= range.start);
            let allowed = available & !self.lost_in(range);
            let taken = active.iter().fold(0, |mask, (_, _, reg)| mask | bit(*reg));
            if let Some(reg) = self.choose(&scan, v, allowed & !taken) {
                scan.regs[v.0 as usize] = Some(reg);
                active.push((range, v, reg));
                continue;
            }
            let cheapest = active
                .iter()
                .enumerate()
                .filter(|(_, (_, _, reg))| bit(*reg) & allowed != 0)
                .min_by_key(|(_, (other, w, _))| self.worth(*other, *w));
            match cheapest {
                Some((at, (other, loser, reg))) if self.worth(*other, *loser) < self.worth(range, v) => {
                    let (loser, reg) = (*loser, *reg);
                    scan.regs[loser.0 as usize] = None;
                    scan.spilled.push(loser);
                    scan.regs[v.0 as usize] = Some(reg);
                    active[at] = (range, v, reg);
                }
                _ => scan.spilled.push(v),
            }
        }
        scan
    }

    /// How much a register is worth to it: reads and writes per length; nothing for what is cheap to make again.
    fn worth(&self, range: Range, v: Vreg) -> (bool, u64) {
        let length = u64::from(range.end - range.start + 1);
        let weight = u64::from(self.live.weights[v.0 as usize]);
        (self.again[v.0 as usize].is_none(), (weight << 20) / length)
    }

    fn choose(&self, scan: &Scan, v: Vreg, candidates: Mask) -> Option<Reg> {
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
            .find(|reg| candidates & bit(*reg) != 0)
    }

    fn finish(&self, scan: Scan) -> Allocation {
        let mut places: Vec<Location> = scan
            .regs
            .iter()
            .map(|reg| reg.map_or(Location::Nowhere, Location::Reg))
            .collect();
        let mut slots: Vec<u32> = Vec::new();
        let mut spilled: Vec<(Range, Vreg)> = Vec::new();
        for (at, place) in places.iter_mut().enumerate() {
            match (&self.again[at], *place == Location::Nowhere) {
                (Some(op), true) => *place = Location::Again(op.clone()),
                _ => continue,
            }
        }
        for v in scan.spilled {
            if let (Some(range), Location::Nowhere) = (self.live.ranges[v.0 as usize], &places[v.0 as usize])
            {
                spilled.push((range, v));
            }
        }
        spilled.sort_by_key(|(range, v)| (range.start, v.0));
        for (range, v) in spilled {
            let slot = slots
                .iter()
                .position(|end| *end < range.start)
                .unwrap_or_else(|| {
                    slots.push(0);
                    slots.len() - 1
                });
            slots[slot] = range.end;
            places[v.0 as usize] = Location::Spill(slot as u32);
        }
        Allocation {
            places,
            spills: slots.len() as u32,
        }
    }
}
