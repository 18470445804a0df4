//! The state of the processor at the event: its preemption count and its register of flags.

use super::Lower;
use crate::check::tree::Access;
use crate::context::{PreemptCount, ProgramKind};
use crate::ir::{AluOp, Bits, Condition, Vreg, Width, helper};
use kestrel_bpf::btf::PreemptCountSource;

/// The bits of the preemption count that count how often it was switched off (include/linux/preempt.h, `PREEMPT_MASK`).
const PREEMPTION_OFF: i64 = 0xff;

impl Lower<'_> {
    /// The CPU's preemption count without what the program's own caller, and the program, have added.
    pub(super) fn preempt_count(&mut self, of: PreemptCount) -> Vreg {
        let width = if of.place.is_wide { Width::B8 } else { Width::B4 };
        let count = match of.place.source {
            PreemptCountSource::Symbol { id, offset } => {
                let variable = self.b.kernel_variable(id.0);
                let here = self.b.helper(helper::THIS_CPU_PTR, &[variable.into()]);
                self.b.load(width, here, offset as i16)
            }
            PreemptCountSource::RunQueue {
                fair_queue,
                queue,
                distance,
            } => {
                let task = self.b.helper(helper::GET_CURRENT_TASK, &[]);
                let fair = self.kernel_word(Width::B8, task, fair_queue.cast_signed());
                let queue = self.kernel_word(Width::B8, fair, queue.cast_signed());
                self.kernel_word(width, queue, distance)
            }
        };
        let added = i64::from(self.added_to_preempt_count(of));
        // System calls' tracepoints may be called with preemption on where others are not.
        let depth = self.b.and(count, PREEMPTION_OFF);
        let is_less = self.b.compare(Condition::Less, depth, added);
        let missing = self.b.alu(AluOp::Sub, Bits::B64, depth, added);
        let missing = self.b.mul(missing, is_less);
        let added = self.b.add(missing, added);
        self.b.alu(AluOp::Sub, Bits::B64, count, added)
    }

    /// Number of times that the event and the program itself switched preemption off.
    fn added_to_preempt_count(&self, of: PreemptCount) -> u8 {
        // The read side of RCU, where it switches preemption off.
        let for_program = of.tracepoints.saturating_sub(1);
        let on_the_way = match self.context.program {
            ProgramKind::RawTracepoint | ProgramKind::TracingTracepoint => of.tracepoints,
            ProgramKind::Tracepoint => for_program + 1,
            _ => for_program + u8::from(!self.context.preemptible),
        };
        on_the_way + u8::from(self.whole)
    }

    /// The register of flags, which the kernel saves while interrupts are off for a moment. A program may not look into what was saved, the helper that
    /// reads the kernel's memory may: its own stack is such memory.
    pub(super) fn processor_flags(&mut self) -> Vreg {
        let saved = self.b.slot(8, 8);
        let saved = self.b.slot_address(saved, 0);
        let copy = self.b.slot(8, 8);
        let to = self.b.slot_address(copy, 0);
        self.b.kfunc("bpf_local_irq_save", &[saved.into()]);
        self.b
            .helper(helper::PROBE_READ_KERNEL, &[to.into(), 8.into(), saved.into()]);
        self.b.kfunc("bpf_local_irq_restore", &[saved.into()]);
        let copy = self.b.slot_address(copy, 0);
        self.b.load(Width::B8, copy, 0)
    }

    /// A number in the kernel's memory.
    fn kernel_word(&mut self, width: Width, address: Vreg, offset: i32) -> Vreg {
        let slot = self.b.slot(width.bytes(), 8);
        self.probe_read(Access::Kernel, slot, width.bytes(), address, offset);
        let place = self.b.slot_address(slot, 0);
        self.b.load(width, place, 0)
    }
}
