//! Liveness of registers: an order of blocks, positions in it, and the stretches of each register's life.
//!
//! Instructions are numbered in order, ends of blocks included; number 0 is the entry. Instruction `n` reads at position `4n`,
//! loses registers at `4n + 1` and writes at `4n + 2`; a *late* read at `4n + 2` keeps an operand apart from the result.

use crate::ir::{BlockId, End, Function, Op, Operand, Vreg};

/// From the first position to the last one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Range {
    /// The smallest range that covers both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// Positions and intervals of a function.
pub(crate) struct Live {
    /// Reachable blocks in the order of their code; cold ones last, unless there is much of it.
    pub(crate) order: Vec<BlockId>,
    /// Number of the first instruction of each block, in that order.
    pub(crate) first: Vec<u32>,
    /// By register: where its value is needed, stretch by stretch; at other places its register is free for others.
    pub(crate) stretches: Vec<Vec<Range>>,
    /// By register: from the first stretch to the last one; `None` for those that never occur.
    pub(crate) ranges: Vec<Option<Range>>,
    /// Reads and writes by register: those in loops count double, those in cold blocks little.
    pub(crate) weights: Vec<u32>,
    /// The range of each loop.
    pub(crate) loops: Vec<Range>,
}

/// Registers, or objects, that outlive a block, one by one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub(crate) fn new(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, v: usize) {
        self.0[v / 64] |= 1 << (v % 64);
    }

    pub(crate) fn contains(&self, v: usize) -> bool {
        self.0[v / 64] >> (v % 64) & 1 == 1
    }

    /// Adds all of another one; says whether any was new.
    pub(crate) fn add_all(&mut self, other: &Self) -> bool {
        let mut new = 0;
        for (to, from) in self.0.iter_mut().zip(&other.0) {
            new |= from & !*to;
            *to |= from;
        }
        new != 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let left = |bits: &u64| Some(bits & (bits - 1)).filter(|left| *left != 0);
            let rests = std::iter::successors(Some(*bits).filter(|bits| *bits != 0), left);
            rests.map(move |rest| word * 64 + rest.trailing_zeros() as usize)
        })
    }
}

impl Live {
    /// Analyses the reachable blocks.
    pub(crate) fn of(function: &Function) -> Self {
        let (order, warm) = code_order(function);
        let mut first = Vec::with_capacity(order.len());
        let mut next = 1;
        for id in &order {
            first.push(next);
            next += function.block(*id).insts.len() as u32 + 1;
        }
        let mut live = Self {
            loops: loops(function, &order, &first),
            stretches: vec![Vec::new(); function.vregs as usize],
            ranges: Vec::new(),
            weights: vec![0; function.vregs as usize],
            order,
            first,
        };
        live.find_stretches(function, &warm);
        live.ranges = live
            .stretches
            .iter()
            .map(|s| s.iter().copied().reduce(Range::union))
            .collect();
        live
    }

    fn find_stretches(&mut self, function: &Function, warm: &[bool]) {
        let Flow { ins, outs, registers } = flow(function, &self.order);
        if let Some(context) = function.context {
            let mut needed = ins[0].iter().map(|number| registers[*number]);
            let end = if needed.any(|v| v == context) { 4 } else { 2 };
            self.stretches[context.0 as usize].push(Range { start: 2, end });
        }
        // Where the stretch that a register is in ends, going backwards; 0 outside of one.
        let mut ends = vec![0; function.vregs as usize];
        let looped = self.looped();
        for (at, id) in self.order.clone().into_iter().enumerate() {
            let block = function.block(id);
            let (from, end) = (self.first[at], self.first[at] + block.insts.len() as u32);
            let weight = match looped[at] {
                _ if !warm[at] => 1,
                false => 64,
                true => 128,
            };
            for v in outs[at].iter().map(|number| registers[*number]) {
                ends[v.0 as usize] = end * 4 + 3;
            }
            for v in block.end.iter().flat_map(End::uses) {
                self.read(&mut ends, v, end * 4, weight);
            }
            for (n, inst) in (from..end).rev().zip(block.insts.iter().rev()) {
                if let Some(v) = inst.op.def() {
                    self.written(&mut ends, v, n * 4 + 2, weight);
                }
                for v in late_uses(&inst.op) {
                    self.read(&mut ends, v, n * 4 + 2, 0);
                }
                for v in inst.op.uses() {
                    self.read(&mut ends, v, n * 4, weight);
                }
            }
            for v in ins[at].iter().map(|number| registers[*number]) {
                let end = std::mem::take(&mut ends[v.0 as usize]);
                self.stretches[v.0 as usize].push(Range { start: from * 4, end });
            }
        }
    }

    /// By block: whether a loop covers it.
    fn looped(&self) -> Vec<bool> {
        let mut changes = vec![0i32; self.first.len() + 1];
        for range in &self.loops {
            changes[self.first.partition_point(|first| first * 4 < range.start)] += 1;
            changes[self.first.partition_point(|first| first * 4 <= range.end)] -= 1;
        }
        let mut depth = 0;
        let deep = changes.iter().take(self.first.len()).map(|change| {
            depth += change;
            depth > 0
        });
        deep.collect()
    }

    fn read(&mut self, ends: &mut [u32], v: Vreg, position: u32, weight: u32) {
        let end = &mut ends[v.0 as usize];
        if *end == 0 {
            *end = position;
        }
        self.weights[v.0 as usize] += weight;
    }

    fn written(&mut self, ends: &mut [u32], v: Vreg, position: u32, weight: u32) {
        let end = std::mem::take(&mut ends[v.0 as usize]).max(position);
        self.stretches[v.0 as usize].push(Range { start: position, end });
        self.weights[v.0 as usize] += weight;
    }
}

/// From so many operations on, cold blocks are left in place: at the end of a long program they would be out of their jumps' reach.
const LONG: usize = 12_000;

/// Reverse postorder with cold blocks, and those that only cold ones lead to, moved to the end; also which are not.
fn code_order(function: &Function) -> (Vec<BlockId>, Vec<bool>) {
    let order = function.order();
    // A block is warm if it is not marked and the entry or a warm block leads to it.
    let mut warm = vec![false; function.blocks.len()];
    warm[0] = true;
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for id in order
            .iter()
            .filter(|id| warm[id.0 as usize])
            .copied()
            .collect::<Vec<_>>()
        {
            for target in function.block(id).end.iter().flat_map(End::targets) {
                let target = target.0 as usize;
                if !warm[target] && !function.blocks[target].cold {
                    warm[target] = true;
                    changed = true;
                }
            }
        }
    }
    let operations: usize = order.iter().map(|id| function.block(*id).insts.len()).sum();
    let code = match operations < LONG {
        true => {
            let (mut code, cold): (Vec<_>, Vec<_>) = order.into_iter().partition(|id| warm[id.0 as usize]);
            code.extend(cold);
            code
        }
        false => order,
    };
    let warm = code.iter().map(|id| warm[id.0 as usize]).collect();
    (code, warm)
}

/// Registers needed at the start and at the end of each block, by their numbers among those that are needed across a border of blocks at all:
/// few of a long program's.
pub(crate) struct Flow {
    ins: Vec<Vec<usize>>,
    outs: Vec<Vec<usize>>,
    registers: Vec<Vreg>,
}

impl Flow {
    /// The registers that are needed behind a block, by its place in the order.
    pub(crate) fn needed_behind(&self, at: usize) -> impl Iterator<Item = Vreg> + '_ {
        let numbers = self.outs.get(at).into_iter().flatten();
        numbers.filter_map(|number| self.registers.get(*number).copied())
    }
}

/// By block: its place in an order of all that are reachable.
pub(crate) fn places(function: &Function, order: &[BlockId]) -> Vec<usize> {
    let mut place = vec![0; function.blocks.len()];
    for (at, id) in order.iter().enumerate() {
        place[id.0 as usize] = at;
    }
    place
}

/// Passes on the registers that a block reads, and those that it writes (`true`), its end first.
fn backwards(function: &Function, id: BlockId, mut found: impl FnMut(Vreg, bool)) {
    let block = function.block(id);
    block.end.iter().flat_map(End::uses).for_each(|v| found(v, false));
    for inst in block.insts.iter().rev() {
        if let Some(v) = inst.op.def() {
            found(v, true);
        }
        inst.op.uses().for_each(|v| found(v, false));
    }
}

pub(crate) fn flow(function: &Function, order: &[BlockId]) -> Flow {
    // Which ones a block reads before it writes them, if at all.
    let mut numbers: Vec<Option<usize>> = vec![None; function.vregs as usize];
    let mut registers: Vec<Vreg> = Vec::new();
    let mut exposed: Vec<Vec<Vreg>> = Vec::with_capacity(order.len());
    let mut pending: Vec<usize> = vec![usize::MAX; function.vregs as usize];
    for (at, id) in order.iter().enumerate() {
        let mut read: Vec<Vreg> = Vec::new();
        backwards(function, *id, |v, written| {
            let mark = &mut pending[v.0 as usize];
            match written {
                true if *mark == at => *mark = usize::MAX,
                false if *mark != at => {
                    *mark = at;
                    read.push(v);
                }
                _ => {}
            }
        });
        read.retain(|v| pending[v.0 as usize] == at);
        for v in &read {
            numbers[v.0 as usize].get_or_insert_with(|| {
                registers.push(*v);
                registers.len() - 1
            });
        }
        exposed.push(read);
    }
    // By register: the blocks that read it first, and those that write it.
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); registers.len()];
    let mut writers = readers.clone();
    for (at, id) in order.iter().enumerate() {
        for number in exposed[at].iter().filter_map(|v| numbers[v.0 as usize]) {
            readers[number].push(at);
        }
        for inst in &function.block(*id).insts {
            if let Some(number) = inst.op.def().and_then(|v| numbers[v.0 as usize]) {
                writers[number].push(at);
            }
        }
    }
    let place = places(function, order);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
    for (at, id) in order.iter().enumerate() {
        for target in function.block(*id).end.iter().flat_map(End::targets) {
            before[place[target.0 as usize]].push(at);
        }
    }
    // From each reader backwards, up to the writers: no more steps than there are blocks that a register is needed in, however many others there
    // are. A block's mark says for which register it was last met.
    let mut ins: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
    let mut outs = ins.clone();
    let mut met = [usize::MAX; 3].map(|none| vec![none; order.len()]);
    let [met_in, met_out, met_writer] = &mut met;
    let mut work = Vec::new();
    for (number, (readers, writers)) in readers.iter().zip(&writers).enumerate() {
        for &at in writers {
            met_writer[at] = number;
        }
        for &at in readers {
            if std::mem::replace(&mut met_in[at], number) != number {
                work.push(at);
            }
        }
        while let Some(at) = work.pop() {
            ins[at].push(number);
            for &one in &before[at] {
                if std::mem::replace(&mut met_out[one], number) == number {
                    continue;
                }
                outs[one].push(number);
                if met_writer[one] != number && std::mem::replace(&mut met_in[one], number) != number {
                    work.push(one);
                }
            }
        }
    }
    Flow { ins, outs, registers }
}

/// Span of each jump backwards (in code order).
fn loops(function: &Function, order: &[BlockId], first: &[u32]) -> Vec<Range> {
    let mut loops = Vec::new();
    let place = places(function, order);
    for (from, id) in order.iter().enumerate() {
        for target in function.block(*id).end.iter().flat_map(End::targets) {
            let to = place[target.0 as usize];
            if to <= from {
                let end = first[from] + function.block(*id).insts.len() as u32;
                loops.push(Range {
                    start: first[to] * 4,
                    end: end * 4 + 3,
                });
            }
        }
    }
    loops
}

/// Operands that must stay apart from the result, or outlast what the operation does to registers.
fn late_uses(op: &Op) -> Vec<Vreg> {
    match op {
        Op::Alu { op, right, .. } if !op.commutes() => right.vreg().into_iter().collect(),
        Op::Compare { left, right, .. } => right.vreg().into_iter().chain([*left]).collect(),
        Op::CompareExchange { base, new, .. } => vec![*base, *new],
        Op::Atomic {
            base, old: Some(_), ..
        } => vec![*base],
        _ => Vec::new(),
    }
}

/// Arguments of a call.
pub(crate) fn arguments(op: &Op) -> &[Operand] {
    match op {
        Op::Helper { args, .. } | Op::Kfunc { args, .. } | Op::Call { args, .. } => args,
        _ => &[],
    }
}
