//! Moves objects that the frame has no room for into a map of the program's own: one value per CPU, looked up once at the entry.
//!
//! One value per CPU is enough: the kernel never runs the same program twice at a time on one CPU (`bpf_prog_active`, or the
//! program's own `active` count; the second run is skipped and counted as a recursion miss).

use crate::ir::{
    AluOp, Bits, Block, BlockId, Condition, End, Function, Inst, MapKind, MapSpec, MapUse, Object, Op,
    Operand, Slot, Width, helper,
};
use kestrel_bpf::code::{MapRef, SourceRange};

/// Most bytes of a per-CPU value (`PCPU_MIN_UNIT_SIZE`).
pub(crate) const LIMIT: u32 = 32 << 10;

/// Moves these objects out of the frame.
pub(crate) fn evict(function: &mut Function, evicted: &[Slot]) {
    if evicted.is_empty() {
        return;
    }
    let base = function.vreg();
    let mut size = 0;
    for slot in evicted {
        let object = &mut function.objects[slot.0 as usize];
        let at = size;
        size += object.size.next_multiple_of(8);
        object.size = 0;
        for block in &mut function.blocks {
            for inst in &mut block.insts {
                if let Op::SlotAddress { dst, slot: s, offset } = &inst.op
                    && s == slot
                {
                    inst.op = Op::Alu {
                        op: AluOp::Add,
                        bits: Bits::B64,
                        dst: *dst,
                        left: base,
                        right: Operand::from(at + offset),
                    };
                }
            }
        }
    }
    function.maps.push(MapUse::Private(MapSpec {
        name: "scratch".to_owned(),
        kind: MapKind::PerCpuArray,
        key: 4,
        value: size,
        entries: 1,
        flags: 0,
    }));
    let map = MapRef(function.maps.len() as u32 - 1);
    prepend_lookup(function, map, base);
}

/// Puts `base = lookup(map, 0)` before the entry; without a value the program ends.
fn prepend_lookup(function: &mut Function, map: MapRef, base: crate::ir::Vreg) {
    let span = SourceRange::default();
    let start = BlockId(function.blocks.len() as u32);
    let missing = BlockId(start.0 + 1);
    for target in function
        .blocks
        .iter_mut()
        .filter_map(|b| b.end.as_mut())
        .flat_map(End::targets_mut)
    {
        if target.0 == 0 {
            *target = start;
        }
    }
    function.objects.push(Object {
        size: 4,
        align: 4,
        span,
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
    let entry = Block {
        insts: ops.into_iter().map(|op| Inst { op, span }).collect(),
        end: Some(End::Branch {
            condition: Condition::Equal,
            bits: Bits::B64,
            left: base,
            right: Operand::Imm(0),
            then: missing,
            otherwise: start,
        }),
        end_span: span,
        cold: false,
    };
    let old = std::mem::replace(&mut function.blocks[0], entry);
    function.blocks.push(old);
    function.blocks.push(Block {
        insts: Vec::new(),
        end: Some(End::Exit(Operand::Imm(0))),
        end_span: span,
        cold: true,
    });
}
