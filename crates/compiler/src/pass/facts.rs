//! Facts about virtual registers that passes need: the operation that sets each, and how often it is read.

use crate::ir::{End, Function, Op, Operand, Vreg};

/// Facts about all registers of a function; stale as soon as it changes.
///
/// A register with a single definition has the same value at each of its uses as the registers its definition read, as long as
/// those have single definitions too: definitions come before uses on every path, so a path that sets the operand again
/// must pass this definition again before it can reach the use. That holds in loops as well.
pub(crate) struct Facts {
    definitions: Vec<u32>,
    single: Vec<Option<Op>>,
    reads: Vec<u32>,
}

impl Facts {
    /// Looks at the reachable blocks.
    pub(crate) fn of(function: &Function) -> Self {
        let n = function.vregs as usize;
        let mut facts = Self {
            definitions: vec![0; n],
            single: vec![None; n],
            reads: vec![0; n],
        };
        if let Some(context) = function.context {
            facts.definitions[context.0 as usize] = 1;
        }
        for id in function.order() {
            let block = function.block(id);
            for inst in &block.insts {
                if let Some(dst) = inst.op.def() {
                    let dst = dst.0 as usize;
                    facts.definitions[dst] += 1;
                    let wanted = facts.definitions[dst] == 1 && !inst.op.is_call();
                    facts.single[dst] = wanted.then(|| inst.op.clone());
                }
                for v in inst.op.uses() {
                    facts.reads[v.0 as usize] += 1;
                }
            }
            for v in block.end.iter().flat_map(End::uses) {
                facts.reads[v.0 as usize] += 1;
            }
        }
        facts
    }

    /// Whether exactly one operation sets it.
    pub(crate) fn is_single(&self, v: Vreg) -> bool {
        self.definitions[v.0 as usize] == 1
    }

    /// The one operation that sets it; calls aside, whose results are unknown.
    pub(crate) fn definition(&self, v: Vreg) -> Option<&Op> {
        self.single[v.0 as usize].as_ref()
    }

    /// Number of reads of a register.
    pub(crate) fn reads(&self, v: Vreg) -> u32 {
        self.reads[v.0 as usize]
    }

    /// The value, if it is always the same.
    pub(crate) fn constant(&self, v: Vreg) -> Option<i64> {
        match self.definition(v)? {
            Op::Const { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The register it is a copy of.
    pub(crate) fn original(&self, v: Vreg) -> Vreg {
        match self.definition(v) {
            Some(Op::Copy { src, .. }) if self.is_single(*src) => *src,
            _ => v,
        }
    }

    /// The operand as a number where it is known, else by its original register.
    pub(crate) fn operand(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Reg(v) => {
                let v = self.original(v);
                self.constant(v).map_or(Operand::Reg(v), Operand::Imm)
            }
            number => number,
        }
    }
}
