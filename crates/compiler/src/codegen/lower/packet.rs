//! Packets handed to the reader: the kernel copies them behind a head of ours.

use super::Lower;
use crate::check::tree::Expr;
use crate::error::Error;
use crate::ir::{AluOp, Bits, Vreg, Width, helper};
use crate::packets::{HEAD, MAP};
use kestrel_bpf::code::SourceRange as Span;

/// `BPF_F_CURRENT_CPU`.
const THIS_CPU: i64 = 0xffff_ffff;
/// `BPF_F_CTXLEN_MASK`, as a number: a packet is not longer.
const LENGTH: i64 = 0xf_ffff;

impl Lower<'_> {
    /// Hands over the first bytes of a packet; the operands are the packet, how many, and where it goes.
    pub(super) fn packet(&mut self, operands: &[Expr], span: Span) -> Result<Vreg, Error> {
        let [packet, length, place] = operands else {
            return Err(Error::Malformed {
                what: "a packet without a length or a place",
                span,
            });
        };
        let packet = self.value(packet)?;
        let length = self.value(length)?;
        let place = self.value(place)?;
        let slot = self.b.slot(HEAD as u32, 8);
        let now = self.b.helper(helper::KTIME_GET_NS, &[]);
        let head = self.b.slot_address(slot, 0);
        self.b.store(Width::B8, head, 0, place);
        self.b.store(Width::B8, head, 8, now);
        let length = self.b.and(length, LENGTH);
        self.b.store(Width::B8, head, 16, length);
        let length = self.b.alu(AluOp::ShiftLeft, Bits::B64, length, 32);
        let cpu = self.b.constant(THIS_CPU);
        let flags = self.b.or(length, cpu);
        let external = self.b.external(MAP);
        let map = self.b.map_pointer(external);
        let args = [
            packet.into(),
            map.into(),
            flags.into(),
            head.into(),
            (HEAD as i64).into(),
        ];
        Ok(self.b.helper(helper::SKB_OUTPUT, &args))
    }
}
