//! Moves objects that the frame has no room for into maps of the program's own (one, unless it were too large): one value per CPU, looked up
//! once, in the last block that every path to a use passes (behind the predicate, where only the body needs it).
//!
//! One value per CPU is enough: the kernel never runs the same program twice at a time on one CPU (`bpf_prog_active`, or the
//! program's own `active` count; the second run is skipped and counted as a recursion miss).

use crate::ir::{
    AluOp, Bits, Block, BlockId, Condition, Dominators, End, Function, Inst, MapKind, MapSpec, MapUse,
    Object, Op, Operand, Slot, Vreg, Width, helper,
};
use kestrel_bpf::code::MapRef;
use std::collections::HashMap;

/// Most bytes of a per-CPU value (`PCPU_MIN_UNIT_SIZE`).
pub(crate) const LIMIT: u32 = 32 << 10;

/// Moves these objects out of the frame, into as many maps as they need.
pub(crate) fn evict(function: &mut Function, evicted: &[Slot]) {
    let mut rest = evicted;
    while !rest.is_empty() {
        let mut taken = 0;
        let fitting = rest.iter().take_while(|slot| {
            taken += function.objects[slot.0 as usize].size.next_multiple_of(8);
            taken <= LIMIT
        });
        let (together, behind) = rest.split_at(fitting.count().max(1));
        evict_together(function, together);
        rest = behind;
    }
}

fn evict_together(function: &mut Function, evicted: &[Slot]) {
    let users = function.ids().filter(|id| {
        let mut ops = function.block(*id).insts.iter().map(|inst| &inst.op);
        ops.any(|op| matches!(op, Op::SlotAddress { slot, .. } if evicted.contains(slot)))
    });
    let Some(home) = Dominators::of(function).nearest_common(users) else {
        return;
    };
    let base = function.vreg();
    let size = redirect(function, evicted, base);
    function.maps.push(MapUse::Private(MapSpec {
        name: "scratch".to_owned(),
        kind: MapKind::PerCpuArray,
        key: 4,
        value: size,
        entries: 1,
        flags: 0,
    }));
    let map = MapRef(function.maps.len() as u32 - 1);
    look_up(function, home, map, base);
}

/// Turns addresses of evicted objects into offsets from `base`; gives the bytes of all.
fn redirect(function: &mut Function, evicted: &[Slot], base: Vreg) -> u32 {
    let mut places = HashMap::new();
    let mut size = 0;
    for slot in evicted {
        places.insert(*slot, size);
        size += function.objects[slot.0 as usize].size.next_multiple_of(8);
    }
    for inst in function.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let Op::SlotAddress { dst, slot, offset } = inst.op
            && let Some(at) = places.get(&slot)
        {
            inst.op = Op::Alu {
                op: AluOp::Add,
                bits: Bits::B64,
                dst,
                left: base,
                right: Operand::from(at + offset),
            };
        }
    }
    size
}

/// Puts `base = lookup(map, 0)` at the start of block `home`; without a value the program ends.
fn look_up(function: &mut Function, home: BlockId, map: MapRef, base: Vreg) {
    let at = home.0 as usize;
    let span = function.blocks[at]
        .insts
        .first()
        .map_or(function.blocks[at].end_span, |i| i.span);
    let rest = BlockId(function.blocks.len() as u32);
    let missing = BlockId(rest.0 + 1);
    function.objects.push(Object {
        size: 4,
        align: 4,
        span,
        framed: false,
    });
    let key = Slot(function.objects.len() as u32 - 1);
    let (key_address, map_pointer) = (function.vreg(), function.vreg());
    let ops = [
        Op::SlotAddress {
            dst: key_address,
            slot: key,
            offset: 0,
        },
        Op::Store {
            width: Width::B4,
            base: key_address,
            offset: 0,
            value: Operand::Imm(0),
        },
        Op::Map {
            dst: map_pointer,
            map,
        },
        Op::Helper {
            dst: Some(base),
            helper: helper::MAP_LOOKUP_ELEM,
            args: vec![map_pointer.into(), key_address.into()],
        },
    ];
    let block = &mut function.blocks[at];
    let insts = ops.into_iter().map(|op| Inst { op, span }).collect();
    // The verifier wants the pointer compared with null, so the block is split behind the lookup.
    let moved = Block {
        insts: std::mem::replace(&mut block.insts, insts),
        end: block.end.replace(End::Branch {
            condition: Condition::Equal,
            bits: Bits::B64,
            left: base,
            right: Operand::Imm(0),
            then: missing,
            otherwise: rest,
        }),
        ..block.clone()
    };
    function.blocks.push(moved);
    function.blocks.push(Block {
        insts: Vec::new(),
        end: Some(End::Exit(Operand::Imm(0))),
        end_span: span,
        cold: true,
    });
}
