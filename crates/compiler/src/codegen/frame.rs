//! Lays out the 512 bytes of stack: objects that never live together share bytes.

use super::live::{Live, Range, Set, places};
use crate::ir::{AluOp, BlockId, End, Function, Op, Operand, Slot, Vreg};
use std::collections::{BTreeMap, HashMap};

/// Bytes of stack that a BPF program has (`MAX_BPF_STACK`).
pub(crate) const LIMIT: u32 = 512;

/// Stack frame: negative offsets of everything in it from the frame pointer.
pub(crate) struct Frame {
    objects: Vec<i32>,
    /// Bytes in use.
    pub(crate) size: u32,
}

impl Frame {
    /// Lays out all objects; the size may exceed [`LIMIT`].
    pub(crate) fn of(function: &Function, live: &Live) -> Self {
        let stretches = object_stretches(function, live);
        let mut order: Vec<usize> = (0..function.objects.len())
            .filter(|i| !stretches[*i].is_empty())
            .collect();
        order.sort_by_key(|i| std::cmp::Reverse(function.objects[*i].size));
        let mut frame = Self {
            objects: vec![0; function.objects.len()],
            size: 0,
        };
        // From the frame's top to its bottom, byte by byte: which stretches are taken.
        let mut placed: Vec<Taken> = Vec::new();
        for i in order {
            let object = function.objects[i];
            let align = object.align.clamp(1, 8);
            let mut depth = object.size;
            // First fit: go deeper past each neighbour that lives at the same time.
            loop {
                depth = depth.next_multiple_of(align);
                let (top, bottom) = (depth - object.size, depth);
                let clash = placed
                    .iter()
                    .filter(|taken| taken.from < bottom && top < taken.to)
                    .filter(|taken| taken.overlaps(&stretches[i]))
                    .map(|taken| taken.to)
                    .max();
                match clash {
                    Some(to) => depth = to + object.size,
                    None => break,
                }
            }
            let (from, to) = (depth - object.size, depth);
            let known = placed
                .iter_mut()
                .find(|taken| (taken.from, taken.to) == (from, to));
            match known {
                Some(taken) => taken.add(&stretches[i]),
                None => {
                    let mut taken = Taken {
                        from,
                        to,
                        stretches: BTreeMap::new(),
                    };
                    taken.add(&stretches[i]);
                    placed.push(taken);
                }
            }
            frame.objects[i] = -depth.cast_signed();
            frame.size = frame.size.max(depth);
        }
        frame.size = frame.size.next_multiple_of(8);
        frame
    }

    /// Offset of a byte of an object.
    pub(crate) fn object(&self, slot: Slot, offset: u32) -> i32 {
        self.objects[slot.0 as usize] + offset.cast_signed()
    }
}

/// Bytes that objects share which never live together.
struct Taken {
    /// From the frame pointer downwards.
    from: u32,
    to: u32,
    /// When they are in use: start and end. No two of them have a position in common.
    stretches: BTreeMap<u32, u32>,
}

impl Taken {
    fn overlaps(&self, others: &[Range]) -> bool {
        let in_use = |range: &Range| {
            let last = self.stretches.range(..=range.end).next_back();
            last.is_some_and(|(_, end)| *end >= range.start)
        };
        others.iter().any(in_use)
    }

    fn add(&mut self, stretches: &[Range]) {
        let taken = stretches.iter().map(|range| (range.start, range.end));
        self.stretches.extend(taken);
    }
}

/// Where an object is in use: wherever it may have been mentioned before and may be mentioned again.
fn object_stretches(function: &Function, live: &Live) -> Vec<Vec<Range>> {
    let owners = owners(function, live);
    let owner = |v: Vreg| owners[v.0 as usize].map(|slot| slot.0 as usize);
    // By block: first and last position at which each object is mentioned.
    let mut mentions: Vec<HashMap<usize, Range>> = Vec::with_capacity(live.order.len());
    for (id, first) in live.order.iter().zip(&live.first) {
        let block = function.block(*id);
        let mut here: HashMap<usize, Range> = HashMap::new();
        let mut mention = |object: Option<usize>, at: u32| {
            if let Some(object) = object {
                let range = here.entry(object).or_insert(Range { start: at, end: at });
                range.end = at + 3;
            }
        };
        if let Some(parameters) = function.parameters
            && *id == BlockId(0)
        {
            mention(Some(parameters.slot.0 as usize), first * 4);
        }
        for (n, inst) in (*first..).zip(&block.insts) {
            inst.op.uses().for_each(|v| mention(owner(v), n * 4));
            mention(inst.op.def().and_then(owner), n * 4);
        }
        let end = first + block.insts.len() as u32;
        block
            .end
            .iter()
            .flat_map(End::uses)
            .for_each(|v| mention(owner(v), end * 4));
        mentions.push(here);
    }
    // The address of an object that is kept in memory may be read, and followed, wherever the program goes on.
    let escaped: Vec<usize> = live
        .order
        .iter()
        .flat_map(|id| &function.block(*id).insts)
        .filter_map(|inst| match &inst.op {
            Op::Store {
                value: Operand::Reg(value),
                ..
            } => owner(*value),
            _ => None,
        })
        .collect();
    let (before, mut after) = mentioned(function, live, &mentions);
    for (at, here) in mentions.iter().enumerate() {
        let passes = |object: &&usize| before[at].contains(**object) || here.contains_key(*object);
        escaped
            .iter()
            .filter(passes)
            .for_each(|object| after[at].insert(*object));
    }
    let mut stretches: Vec<Vec<Range>> = vec![Vec::new(); function.objects.len()];
    for (at, here) in mentions.iter().enumerate() {
        let start = live.first[at] * 4;
        let end = (live.first[at] + function.block(live.order[at]).insts.len() as u32) * 4 + 3;
        let through = before[at].iter().filter(|object| after[at].contains(*object));
        let whole = |object| (object, Range { start, end });
        let through = through.filter(|object| !here.contains_key(object)).map(whole);
        let mentioned = here.iter().map(|(&object, range)| {
            let start = if before[at].contains(object) {
                start
            } else {
                range.start
            };
            let end = if after[at].contains(object) {
                end
            } else {
                range.end
            };
            (object, Range { start, end })
        });
        for (object, range) in through.chain(mentioned) {
            // An object that lives on from the block before has one stretch: most objects of long programs live through many blocks.
            match stretches[object].last_mut() {
                Some(last) if last.end + 1 == range.start => last.end = range.end,
                _ => stretches[object].push(range),
            }
        }
    }
    stretches
}

/// By block: objects that may have been mentioned before it, and those that may be mentioned after it.
fn mentioned(function: &Function, live: &Live, here: &[HashMap<usize, Range>]) -> (Vec<Set>, Vec<Set>) {
    let place = places(function, &live.order);
    let none = vec![Set::new(function.objects.len()); live.order.len()];
    let own: Vec<Set> = here
        .iter()
        .map(|here| {
            let mut set = Set::new(function.objects.len());
            here.keys().for_each(|object| set.insert(*object));
            set
        })
        .collect();
    let (mut before, mut after) = (none.clone(), none);
    let edges: Vec<(usize, usize)> = live
        .order
        .iter()
        .enumerate()
        .flat_map(|(from, id)| {
            let targets = function.block(*id).end.iter().flat_map(End::targets);
            targets.map(move |to| (from, to)).collect::<Vec<_>>()
        })
        .map(|(from, to)| (from, place[to.0 as usize]))
        .collect();
    let mut changed = true;
    while std::mem::take(&mut changed) {
        // Code comes in an order in which nearly every edge leads forwards: a pass or two.
        for &(from, to) in &edges {
            let passed = before[from].clone();
            changed |= before[to].add_all(&passed) | before[to].add_all(&own[from]);
        }
        for &(from, to) in edges.iter().rev() {
            let passed = after[to].clone();
            changed |= after[from].add_all(&passed) | after[from].add_all(&own[to]);
        }
    }
    (before, after)
}

/// The object that each register's address is in, if it is one.
fn owners(function: &Function, live: &Live) -> Vec<Option<Slot>> {
    let mut owners: Vec<Option<Slot>> = vec![None; function.vregs as usize];
    loop {
        let mut changed = false;
        let ops = live
            .order
            .iter()
            .flat_map(|id| &function.block(*id).insts)
            .map(|i| &i.op);
        for op in ops {
            let of = |v: Vreg| owners[v.0 as usize];
            let owner = match op {
                Op::SlotAddress { slot, .. } => Some(*slot),
                Op::Copy { src, .. } => of(*src),
                Op::Alu {
                    op: AluOp::Add | AluOp::Sub,
                    left,
                    right,
                    ..
                } => of(*left).or(match right {
                    Operand::Reg(v) => of(*v),
                    Operand::Imm(_) => None,
                }),
                _ => None,
            };
            if let (Some(dst), Some(_)) = (op.def(), owner)
                && owners[dst.0 as usize].is_none()
            {
                owners[dst.0 as usize] = owner;
                changed = true;
            }
        }
        if !changed {
            return owners;
        }
    }
}
