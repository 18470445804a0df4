//! Lays out the 512 bytes of stack: objects that never live together share bytes.

use super::live::{Live, Range};
use crate::ir::{AluOp, Function, Op, Operand, Slot, Vreg};

/// Bytes of stack that a BPF program has (`MAX_BPF_STACK`).
pub(crate) const LIMIT: u32 = 512;

/// Where things lie, as negative offsets from the frame pointer.
pub(crate) struct Frame {
    objects: Vec<i32>,
    /// Bytes in use.
    pub(crate) size: u32,
}

impl Frame {
    /// Lays out all objects; the size may exceed [`LIMIT`].
    pub(crate) fn of(function: &Function, live: &Live) -> Self {
        let ranges = object_ranges(function, live);
        let mut order: Vec<usize> = (0..function.objects.len())
            .filter(|i| ranges[*i].is_some())
            .collect();
        order.sort_by_key(|i| std::cmp::Reverse(function.objects[*i].size));
        let mut frame = Self {
            objects: vec![0; function.objects.len()],
            size: 0,
        };
        let mut placed: Vec<(Range, u32, u32)> = Vec::new();
        for i in order {
            let Some(range) = ranges[i] else { continue };
            let object = function.objects[i];
            let align = object.align.clamp(1, 8);
            let mut depth = object.size;
            // First fit: go deeper past each neighbour that lives at the same time.
            loop {
                depth = depth.next_multiple_of(align);
                let (top, bottom) = (depth - object.size, depth);
                let clash = placed
                    .iter()
                    .filter(|(other, from, to)| other.overlaps(range) && *from < bottom && top < *to)
                    .map(|(.., to)| *to)
                    .max();
                match clash {
                    Some(to) => depth = to + object.size,
                    None => break,
                }
            }
            placed.push((range, depth - object.size, depth));
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

/// From the first mention of an object to the last use of any address made from it; whole loops where it touches one.
fn object_ranges(function: &Function, live: &Live) -> Vec<Option<Range>> {
    let owners = owners(function, live);
    let mut ranges: Vec<Option<Range>> = vec![None; function.objects.len()];
    for (v, owner) in owners.iter().enumerate() {
        if let (Some(slot), Some(range)) = (owner, live.ranges[v]) {
            let whole = &mut ranges[slot.0 as usize];
            *whole = Some(whole.map_or(range, |w| w.union(range)));
        }
    }
    for range in ranges.iter_mut().flatten() {
        loop {
            let wider = live
                .loops
                .iter()
                .filter(|l| l.overlaps(*range))
                .fold(*range, |r, l| r.union(*l));
            if wider == *range {
                break;
            }
            *range = wider;
        }
    }
    ranges
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
