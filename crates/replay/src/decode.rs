//! Code as it is run: each instruction taken apart once, its maps and jumps found.

use crate::error::{Error, Result};
use crate::memory::RegionId;
use crate::table::{Table, handle};
use kestrel_bpf::code::{Code, RelocationTarget};
use kestrel_bpf::helper::{self, Helper};
use kestrel_bpf::isa::{self, Alu, Atomic, Callee, Cond, Imm64, Meaning, Order, Second, Size, Width};

/// An instruction, or two that are often together. Registers are numbers below 16; jumps name steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    Move {
        to: u8,
        from: u8,
    },
    Set {
        to: u8,
        value: u64,
    },
    Add {
        to: u8,
        from: u8,
    },
    AddTo {
        to: u8,
        value: u64,
    },
    And {
        to: u8,
        value: u64,
    },
    ShiftLeft {
        to: u8,
        by: u8,
    },
    ShiftRight {
        to: u8,
        by: u8,
    },
    Alu {
        op: Alu,
        width: Width,
        to: u8,
        from: u8,
    },
    AluTo {
        op: Alu,
        width: Width,
        to: u8,
        value: u64,
    },
    Negate {
        width: Width,
        to: u8,
    },
    MoveSigned {
        width: Width,
        bits: u8,
        to: u8,
        from: u8,
    },
    Endian {
        order: Order,
        bits: u8,
        to: u8,
    },
    IfEqual {
        left: u8,
        value: u64,
        then: u32,
    },
    IfUnequal {
        left: u8,
        value: u64,
        then: u32,
    },
    If {
        cond: Cond,
        width: Width,
        left: u8,
        right: u8,
        then: u32,
    },
    IfTo {
        cond: Cond,
        width: Width,
        left: u8,
        value: u64,
        then: u32,
    },
    Jump {
        to: u32,
    },
    Load8 {
        to: u8,
        base: u8,
        offset: i16,
    },
    Load4 {
        to: u8,
        base: u8,
        offset: i16,
    },
    Load2 {
        to: u8,
        base: u8,
        offset: i16,
    },
    Load1 {
        to: u8,
        base: u8,
        offset: i16,
    },
    LoadSigned {
        size: Size,
        to: u8,
        base: u8,
        offset: i16,
    },
    Store8 {
        base: u8,
        offset: i16,
        from: u8,
    },
    Store4 {
        base: u8,
        offset: i16,
        from: u8,
    },
    Store2 {
        base: u8,
        offset: i16,
        from: u8,
    },
    Store1 {
        base: u8,
        offset: i16,
        from: u8,
    },
    StoreTo {
        size: Size,
        base: u8,
        offset: i16,
        value: u64,
    },
    Add8 {
        base: u8,
        offset: i16,
        from: u8,
    },
    Atomic {
        op: Atomic,
        size: Size,
        base: u8,
        offset: i16,
        from: u8,
    },
    Local {
        to: u32,
    },
    Call(Helper),
    Exit,
    /// The second half of an instruction of two slots.
    Nothing,
}

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) steps: Vec<Step>,
}

/// The helpers that mean something to a recording.
const HELPERS: &[Helper] = &[
    helper::MAP_LOOKUP_ELEM,
    helper::MAP_UPDATE_ELEM,
    helper::MAP_DELETE_ELEM,
    helper::MAP_LOOKUP_PERCPU_ELEM,
    helper::FOR_EACH_MAP_ELEM,
    helper::LOOP,
    helper::KTIME_GET_NS,
    helper::GET_PRANDOM_U32,
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_COMM,
    helper::PROBE_READ,
    helper::PROBE_READ_USER,
    helper::PROBE_READ_KERNEL,
    helper::PROBE_READ_STR,
    helper::PROBE_READ_USER_STR,
    helper::PROBE_READ_KERNEL_STR,
    helper::GET_STACK,
    helper::GET_STACKID,
    helper::GET_CURRENT_UID_GID,
    helper::GET_CURRENT_CGROUP_ID,
    helper::GET_CURRENT_TASK,
    helper::GET_CURRENT_TASK_BTF,
    helper::GET_NUMA_NODE_ID,
    helper::JIFFIES64,
];

/// Takes code apart; `maps` are the numbers of its maps among all tables.
///
/// # Errors
/// When it calls what no recording has.
pub(crate) fn decode(code: &Code, maps: &[usize], tables: &[Table]) -> Result<Decoded> {
    let mut steps = Vec::with_capacity(code.insns.len());
    while let Some(insn) = code.insns.get(steps.len()) {
        let at = steps.len();
        let row = isa::row(insn).ok_or(Error::Malformed { at })?;
        let (to, from) = (insn.dst & 15, insn.src & 15);
        let offset = insn.off;
        let value = i64::from(insn.imm).cast_unsigned();
        let target = |distance: i64| {
            let to = at as i64 + 1 + distance;
            let inside = usize::try_from(to).is_ok_and(|to| to < code.insns.len());
            match inside {
                true => Ok(to as u32),
                false => Err(Error::Malformed { at }),
            }
        };
        let step = match row.meaning {
            Meaning::Alu { op, width, second } => alu(op, width, second, to, from, value),
            Meaning::Neg { width } => Step::Negate { width, to },
            Meaning::MovSigned { width, bits } => Step::MoveSigned {
                width,
                bits,
                to,
                from,
            },
            Meaning::Endian { order, bits } => Step::Endian { order, bits, to },
            Meaning::Jump { cond, width, second } => {
                jump(cond, width, second, (to, from, value), target(offset.into())?)
            }
            Meaning::Goto => Step::Jump {
                to: target(offset.into())?,
            },
            Meaning::GotoLong => Step::Jump {
                to: target(insn.imm.into())?,
            },
            Meaning::Load { size, signed: true } => Step::LoadSigned {
                size,
                to,
                base: from,
                offset,
            },
            // The commonest sizes and operations are steps of their own, so that the loop over records branches once for each.
            Meaning::Load { size, .. } => match size {
                Size::DW => Step::Load8 {
                    to,
                    base: from,
                    offset,
                },
                Size::W => Step::Load4 {
                    to,
                    base: from,
                    offset,
                },
                Size::H => Step::Load2 {
                    to,
                    base: from,
                    offset,
                },
                Size::B => Step::Load1 {
                    to,
                    base: from,
                    offset,
                },
            },
            Meaning::Store {
                size,
                second: Second::Imm,
            } => Step::StoreTo {
                size,
                base: to,
                offset,
                value,
            },
            Meaning::Store { size, .. } => match size {
                Size::DW => Step::Store8 {
                    base: to,
                    offset,
                    from,
                },
                Size::W => Step::Store4 {
                    base: to,
                    offset,
                    from,
                },
                Size::H => Step::Store2 {
                    base: to,
                    offset,
                    from,
                },
                Size::B => Step::Store1 {
                    base: to,
                    offset,
                    from,
                },
            },
            Meaning::Atomic {
                op: Atomic::Add,
                size: Size::DW,
            } => Step::Add8 {
                base: to,
                offset,
                from,
            },
            Meaning::Atomic { op, size } => Step::Atomic {
                op,
                size,
                base: to,
                offset,
                from,
            },
            Meaning::Load64(kind) => {
                let high = code
                    .insns
                    .get(at + 1)
                    .ok_or(Error::Malformed { at })?
                    .imm
                    .cast_unsigned();
                let found = code.relocations.iter().find(|relocation| relocation.insn == at);
                let target = found.map(|relocation| &relocation.target);
                let table = |map: &kestrel_bpf::code::MapRef| maps.get(map.0 as usize).copied();
                let value = match (kind, target) {
                    (Imm64::Plain, _) => Some(u64::from(insn.imm.cast_unsigned()) | u64::from(high) << 32),
                    (Imm64::Map, Some(RelocationTarget::Map(map))) => table(map).map(handle),
                    (Imm64::MapValue, Some(RelocationTarget::MapValue(map))) => {
                        let first = table(map).and_then(|map| tables.get(map)).map(Table::first);
                        first.map(|first| first + u64::from(high))
                    }
                    (Imm64::Function, _) => Some((at as i64 + 1 + i64::from(insn.imm)).cast_unsigned()),
                    _ => None,
                };
                let value = value.ok_or(Error::Malformed { at })?;
                // Steps have the indexes of their instructions, which jumps refer to: the second slot is a step, too.
                steps.push(Step::Set { to, value });
                Step::Nothing
            }
            Meaning::Call(Callee::Local) => Step::Local {
                to: target(insn.imm.into())?,
            },
            Meaning::Call(Callee::Helper) => {
                let helper = Helper(insn.imm.cast_unsigned());
                if !HELPERS.contains(&helper) {
                    return Err(Error::NotRecorded(helper));
                }
                Step::Call(helper)
            }
            Meaning::Call(Callee::Kfunc) => return Err(Error::Malformed { at }),
            Meaning::Exit => Step::Exit,
        };
        steps.push(step);
    }
    Ok(Decoded { steps })
}

fn alu(op: Alu, width: Width, second: Second, to: u8, from: u8, value: u64) -> Step {
    let shift = (value & 63) as u8;
    match (op, width, second) {
        (Alu::Mov, Width::W64, Second::Reg) => Step::Move { to, from },
        (Alu::Mov, Width::W64, Second::Imm) => Step::Set { to, value },
        (Alu::Mov, Width::W32, Second::Imm) => Step::Set {
            to,
            value: value & 0xffff_ffff,
        },
        (Alu::Add, Width::W64, Second::Reg) => Step::Add { to, from },
        (Alu::Add, Width::W64, Second::Imm) => Step::AddTo { to, value },
        (Alu::And, Width::W64, Second::Imm) => Step::And { to, value },
        (Alu::Lsh, Width::W64, Second::Imm) => Step::ShiftLeft { to, by: shift },
        (Alu::Rsh, Width::W64, Second::Imm) => Step::ShiftRight { to, by: shift },
        (_, _, Second::Reg) => Step::Alu { op, width, to, from },
        (_, _, Second::Imm) => Step::AluTo { op, width, to, value },
    }
}

fn jump(cond: Cond, width: Width, second: Second, (left, right, value): (u8, u8, u64), then: u32) -> Step {
    match (cond, width, second) {
        (Cond::Eq, Width::W64, Second::Imm) => Step::IfEqual { left, value, then },
        (Cond::Ne, Width::W64, Second::Imm) => Step::IfUnequal { left, value, then },
        (_, _, Second::Reg) => Step::If {
            cond,
            width,
            left,
            right,
            then,
        },
        (_, _, Second::Imm) => Step::IfTo {
            cond,
            width,
            left,
            value,
            then,
        },
    }
}

/// The region of a program's context and that of its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) context: RegionId,
    pub(crate) stack: RegionId,
}
