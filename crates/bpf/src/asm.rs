//! The assembler: instructions with labels and references into [`Code`]; it chooses no registers and knows no helpers.

use crate::Error;
use crate::code::{Code, Line, MapRef, OwnFunction, Relocation, RelocationTarget, SourceRange};
use crate::far::{self, Fixup, Jump};
use crate::helper::Helper;
use crate::insn::Insn;
use crate::isa::{self, Alu, Atomic, Callee, Cond, Imm64, Meaning, Order, Reg, Second, Size, Width};

/// A place in the program that jumps can name before it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// A second operand: a register or a 32-bit immediate, which is sign-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the types speak")]
pub enum Operand {
    Reg(Reg),
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

impl Operand {
    fn split(self) -> (Second, u8, i32) {
        match self {
            Self::Reg(reg) => (Second::Reg, reg.number(), 0),
            Self::Imm(imm) => (Second::Imm, 0, imm),
        }
    }
}

/// Appends instructions; mistakes are remembered and the first is returned by [`Assembler::finish`].
///
/// ```
/// use kestrel_bpf::asm::Assembler;
/// use kestrel_bpf::isa::{Cond, Reg::*};
/// let mut asm = Assembler::new();
/// let out = asm.label();
/// asm.mov(R0, 1).jump_if(Cond::Eq, R1, 0, out).mov(R0, 2).bind(out).exit();
/// let code = asm.finish()?;
/// assert_eq!(code.insns.len(), 4);
/// assert_eq!(code.insns[1].off, 1);
/// # Ok::<(), kestrel_bpf::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Assembler {
    code: Code,
    /// Where each label is bound.
    labels: Vec<Option<usize>>,
    /// Instructions that refer to labels, to be filled in.
    fixups: Vec<(usize, Label, Fixup)>,
    failure: Option<Error>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Index of the next instruction (slots, as the kernel counts).
    pub fn here(&self) -> usize {
        self.code.insns.len()
    }

    /// A new label, not yet bound.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds `label` to the next instruction.
    pub fn bind(&mut self, label: Label) -> &mut Self {
        let here = self.here();
        match self.labels.get_mut(label.0 as usize) {
            None => self.fail(Error::ForeignLabel { insn: here }),
            Some(Some(first)) => {
                let first = *first;
                self.fail(Error::LabelBoundTwice { first, second: here });
            }
            Some(place) => *place = Some(here),
        }
        self
    }

    /// Begins a function of its own, which helpers call back.
    pub fn callback(&mut self, label: Label) -> &mut Self {
        let here = self.here();
        self.code.callbacks.push(here);
        self.bind(label)
    }

    /// Begins a function of its own at this point, which the program calls with so many numbers ([`Assembler::call_local`]).
    pub fn own_function(&mut self, label: Label, parameters: u8) -> &mut Self {
        let begin = self.here();
        self.code.functions.push(OwnFunction { begin, parameters });
        self.bind(label)
    }

    /// Instructions from here on come from `source`.
    pub fn at(&mut self, source: SourceRange) -> &mut Self {
        let insn = self.here();
        match self.code.lines.last_mut() {
            Some(last) if last.source == source => {}
            Some(last) if last.insn == insn => last.source = source,
            _ => self.code.lines.push(Line { insn, source }),
        }
        self
    }

    /// Appends an instruction as it is.
    pub fn raw(&mut self, insn: Insn) -> &mut Self {
        self.code.insns.push(insn);
        self
    }

    /// `dst = operand`; an immediate is sign-extended to 64 bits.
    pub fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Mov, Width::W64, dst, operand)
    }

    /// The 32-bit copy: the upper half of `dst` becomes zero.
    pub fn mov32(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Mov, Width::W32, dst, operand)
    }

    /// `dst += operand`.
    pub fn add(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Add, Width::W64, dst, operand)
    }

    /// `dst -= operand`.
    pub fn sub(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Sub, Width::W64, dst, operand)
    }

    /// `dst &= operand`.
    pub fn and(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::And, Width::W64, dst, operand)
    }

    /// `dst |= operand`.
    pub fn or(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Or, Width::W64, dst, operand)
    }

    /// `dst <<= operand`.
    pub fn lsh(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Lsh, Width::W64, dst, operand)
    }

    /// An arithmetic instruction.
    pub fn alu(&mut self, op: Alu, width: Width, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        let (second, src, imm) = operand.into().split();
        self.push(Meaning::Alu { op, width, second }, dst.number(), src, 0, imm)
    }

    /// `dst = -dst`.
    pub fn neg(&mut self, width: Width, dst: Reg) -> &mut Self {
        self.push(Meaning::Neg { width }, dst.number(), 0, 0, 0)
    }

    /// `dst` = the low `bits` (8, 16, 32) of `src`, sign-extended (Linux 6.6).
    pub fn mov_signed(&mut self, width: Width, bits: u8, dst: Reg, src: Reg) -> &mut Self {
        self.push(
            Meaning::MovSigned { width, bits },
            dst.number(),
            src.number(),
            0,
            0,
        )
    }

    /// The low `bits` (16, 32, 64) of `dst` in another byte order, the rest cleared.
    pub fn endian(&mut self, order: Order, bits: u8, dst: Reg) -> &mut Self {
        self.push(Meaning::Endian { order, bits }, dst.number(), 0, 0, 0)
    }

    /// `dst` = a 64-bit constant, in one slot where it fits.
    pub fn constant(&mut self, dst: Reg, value: u64) -> &mut Self {
        match i32::try_from(value as i64) {
            Ok(imm) => self.mov(dst, imm),
            Err(_) if value <= u64::from(u32::MAX) => self.mov32(dst, value as u32 as i32),
            Err(_) => self.load64(Imm64::Plain, dst, value as u32 as i32, (value >> 32) as i32),
        }
    }

    /// `dst` = the map (two slots).
    pub fn map(&mut self, dst: Reg, map: MapRef) -> &mut Self {
        self.relocate(RelocationTarget::Map(map))
            .load64(Imm64::Map, dst, 0, 0)
    }

    /// `dst` = the address of byte `offset` in the map's first value (two slots).
    pub fn map_value(&mut self, dst: Reg, map: MapRef, offset: u32) -> &mut Self {
        self.relocate(RelocationTarget::MapValue(map))
            .load64(Imm64::MapValue, dst, 0, offset as i32)
    }

    /// `dst` = the address of a variable of the kernel by its number in BTF, as `this_cpu_ptr` takes it (two slots).
    pub fn kernel_variable(&mut self, dst: Reg, id: u32) -> &mut Self {
        self.load64(Imm64::BtfId, dst, id.cast_signed(), 0)
    }

    /// `dst` = the function at `label`, for helpers that call back (two slots).
    pub fn function(&mut self, dst: Reg, label: Label) -> &mut Self {
        self.refer(label, Fixup::Immediate)
            .load64(Imm64::Function, dst, 0, 0)
    }

    fn load64(&mut self, kind: Imm64, dst: Reg, low: i32, high: i32) -> &mut Self {
        self.push(Meaning::Load64(kind), dst.number(), 0, 0, low);
        self.raw(Insn {
            imm: high,
            ..Insn::default()
        })
    }

    /// `dst = *(size *)(base + offset)`, zero-extended.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i32) -> &mut Self {
        let off = self.offset(offset);
        self.push(
            Meaning::Load { size, signed: false },
            dst.number(),
            base.number(),
            off,
            0,
        )
    }

    /// `*(size *)(base + offset) = operand`.
    pub fn store(&mut self, size: Size, base: Reg, offset: i32, operand: impl Into<Operand>) -> &mut Self {
        let off = self.offset(offset);
        let (second, src, imm) = operand.into().split();
        self.push(Meaning::Store { size, second }, base.number(), src, off, imm)
    }

    /// An atomic operation on `*(size *)(base + offset)`, `size` being `W` or `DW`.
    pub fn atomic(&mut self, op: Atomic, size: Size, base: Reg, offset: i32, src: Reg) -> &mut Self {
        let off = self.offset(offset);
        self.push(Meaning::Atomic { op, size }, base.number(), src.number(), off, 0)
    }

    /// `goto label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.refer(label, Fixup::Offset).push(Meaning::Goto, 0, 0, 0, 0)
    }

    /// `if dst cond operand goto label`, comparing 64 bits.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, operand: impl Into<Operand>, label: Label) -> &mut Self {
        self.branch(cond, Width::W64, dst, operand, label)
    }

    /// `if dst cond operand goto label`.
    pub fn branch(
        &mut self,
        cond: Cond,
        width: Width,
        dst: Reg,
        operand: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        let (second, src, imm) = operand.into().split();
        self.refer(label, Fixup::Offset).push(
            Meaning::Jump { cond, width, second },
            dst.number(),
            src,
            0,
            imm,
        )
    }

    /// Calls a helper: arguments in r1–r5, which are lost, result in r0.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(Meaning::Call(Callee::Helper), 0, 0, 0, helper.0 as i32)
    }

    /// Calls a kernel function by name.
    pub fn kfunc(&mut self, name: impl Into<String>) -> &mut Self {
        self.relocate(RelocationTarget::Kfunc(name.into()))
            .push(Meaning::Call(Callee::Kfunc), 0, 0, 0, 0)
    }

    /// Calls the function of this program at `label`.
    pub fn call_local(&mut self, label: Label) -> &mut Self {
        self.refer(label, Fixup::Immediate)
            .push(Meaning::Call(Callee::Local), 0, 0, 0, 0)
    }

    /// Returns r0.
    pub fn exit(&mut self) -> &mut Self {
        self.push(Meaning::Exit, 0, 0, 0, 0)
    }

    /// Fills in the labels and gives the program, or the first mistake.
    pub fn finish(self) -> Result<Code, Error> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut jumps = Vec::with_capacity(self.fixups.len());
        for (insn, label, fixup) in self.fixups {
            let place = self
                .labels
                .get(label.0 as usize)
                .ok_or(Error::ForeignLabel { insn })?;
            let target = place.ok_or(Error::UnboundLabel { insn })?;
            jumps.push(Jump { insn, target, fixup });
        }
        let mut code = far::resolve(self.code, jumps)?;
        code.lines.retain(|line| line.insn < code.insns.len());
        Ok(code)
    }

    fn push(&mut self, meaning: Meaning, dst: u8, src: u8, off: i16, imm: i32) -> &mut Self {
        match isa::row_of(meaning) {
            Some(row) => self.code.insns.push(row.encode(dst, src, off, imm)),
            None => self.fail(Error::NoInstruction {
                insn: self.here(),
                what: format!("{meaning:?}"),
            }),
        }
        self
    }

    pub(crate) fn relocate(&mut self, target: RelocationTarget) -> &mut Self {
        let insn = self.here();
        self.code.relocations.push(Relocation { insn, target });
        self
    }

    pub(crate) fn refer(&mut self, label: Label, fixup: Fixup) -> &mut Self {
        self.fixups.push((self.here(), label, fixup));
        self
    }

    fn offset(&mut self, offset: i32) -> i16 {
        i16::try_from(offset).unwrap_or_else(|_| {
            self.fail(Error::OffsetTooLarge {
                insn: self.here(),
                offset: offset.into(),
            });
            0
        })
    }

    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reg::*;

    #[test]
    fn jumps_both_ways_and_calls() {
        let mut asm = Assembler::new();
        let (top, out, function) = (asm.label(), asm.label(), asm.label());
        asm.bind(top)
            .jump_if(Cond::Ne, R1, 0, out)
            .constant(R2, 1 << 40)
            .call_local(function)
            .jump(top);
        asm.bind(out).exit().bind(function).mov(R0, 0).exit();
        let code = asm.finish().unwrap();
        assert_eq!(code.insns[0].off, 4);
        assert_eq!(code.insns[3].imm, 2);
        assert_eq!(code.insns[4].off, -5);
    }

    #[test]
    fn constants_take_the_fewest_slots() {
        let mut asm = Assembler::new();
        for value in [5, u64::MAX, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000] {
            asm.constant(R1, value);
        }
        let codes: Vec<u8> = asm.finish().unwrap().insns.iter().map(|i| i.code).collect();
        assert_eq!(codes, [0xb7, 0xb7, 0xb4, 0xb4, 0x18, 0]);
    }

    #[test]
    fn references_and_lines() {
        let mut asm = Assembler::new();
        asm.at(SourceRange { start: 0, end: 1 })
            .at(SourceRange { start: 2, end: 3 });
        asm.map(R1, MapRef(4))
            .at(SourceRange { start: 2, end: 3 })
            .map_value(R2, MapRef(5), 16)
            .kfunc("f")
            .exit();
        asm.at(SourceRange { start: 9, end: 10 });
        let code = asm.finish().unwrap();
        assert_eq!(
            code.lines,
            [Line {
                insn: 0,
                source: SourceRange { start: 2, end: 3 }
            }]
        );
        assert_eq!(code.insns[3].imm, 16);
        let at: Vec<_> = code
            .relocations
            .iter()
            .map(|r| (r.insn, r.target.clone()))
            .collect();
        let kfunc = RelocationTarget::Kfunc("f".into());
        assert_eq!(
            at,
            [
                (0, RelocationTarget::Map(MapRef(4))),
                (2, RelocationTarget::MapValue(MapRef(5))),
                (4, kfunc)
            ]
        );
    }

    #[test]
    fn mistakes_come_back_as_errors() {
        let make = |f: &dyn Fn(&mut Assembler)| {
            let mut asm = Assembler::new();
            f(&mut asm);
            asm.finish().unwrap_err()
        };
        assert_eq!(
            make(&|a| {
                let l = a.label();
                a.jump(l);
            }),
            Error::UnboundLabel { insn: 0 }
        );
        assert_eq!(
            make(&|a| {
                let l = a.label();
                a.bind(l).exit().bind(l);
            }),
            Error::LabelBoundTwice { first: 0, second: 1 }
        );
        assert_eq!(make(&|a| _ = a.jump(Label(7))), Error::ForeignLabel { insn: 0 });
        assert_eq!(
            make(&|a| _ = a.load(Size::B, R0, R1, 40_000)),
            Error::OffsetTooLarge {
                insn: 0,
                offset: 40_000
            }
        );
        assert!(matches!(
            make(&|a| _ = a.atomic(Atomic::Add, Size::B, R1, 0, R2)),
            Error::NoInstruction { .. }
        ));
    }
}
