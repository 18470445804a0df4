//! Flags of the helpers that walk stacks: whose stack, and how many frames at its top are the tracing's own and left out.

use super::Lower;
use crate::context::ProgramKind;
use crate::ir::{AluOp, Bits, Condition, Operand, Vreg, Width, helper};
use kestrel_trace::layout::Space;
use std::ops::Range;

/// `BPF_F_USER_STACK`.
const USER_STACK: i64 = 1 << 8;

impl Lower<'_> {
    /// Flags for a stack of the kernel's or the process's.
    pub(super) fn stack_flags(&mut self, space: Space) -> Operand {
        match space {
            Space::Kernel => self.own_frames(),
            Space::User => USER_STACK.into(),
        }
    }

    /// Number of our own frames at the top of a kernel stack. The helper itself leaves them out: where it makes a number of a stack, nothing else could.
    fn own_frames(&mut self) -> Operand {
        let always = self.frames_of_program();
        let dispatchers = self.context.dispatchers.clone();
        let (call, iterate) = match (dispatchers.call, dispatchers.iterate) {
            (None, None) => return always.into(),
            (call, iterate) => (call, iterate),
        };
        // A walk of two frames: the helper goes no further than it is asked to.
        let slot = self.b.slot(16, 8);
        for offset in [0, 8] {
            let frames = self.b.slot_address(slot, 0);
            self.b.store(Width::B8, frames, offset, 0);
        }
        let (frames, context) = (self.b.slot_address(slot, 0), self.program_context());
        let arguments = [context.into(), frames.into(), 16.into(), always.into()];
        self.b.helper(helper::GET_STACK, &arguments);
        let (count, innermost) = (self.b.vreg(), self.b.vreg());
        self.b.assign(count, always);
        let frames = self.b.slot_address(slot, 0);
        let first = self.b.load(Width::B8, frames, 0);
        self.b.assign(innermost, first);
        if let Some(call) = call {
            self.leave_out(&call, innermost, count, |lower| {
                let frames = lower.b.slot_address(slot, 0);
                let second = lower.b.load(Width::B8, frames, 8);
                lower.b.assign(innermost, second);
            });
        }
        if let Some(iterate) = iterate {
            self.leave_out(&iterate, innermost, count, |_| {});
        }
        count.into()
    }

    /// Counts one more frame to leave out where `address` lies in `code`, and goes to what is then innermost.
    fn leave_out(&mut self, code: &Range<u64>, address: Vreg, count: Vreg, onward: impl FnOnce(&mut Self)) {
        let start = self.b.constant(code.start.cast_signed());
        let inside = self.b.alu(AluOp::Sub, Bits::B64, address, start);
        let (left_out, next) = (self.b.block(), self.b.block());
        let size = (code.end - code.start).cast_signed();
        self.b.branch(Condition::Less, inside, size, left_out, next);
        self.b.switch_to(left_out);
        let more = self.b.add(count, 1);
        self.b.assign(count, more);
        onward(self);
        self.b.jump(next);
        self.b.switch_to(next);
    }

    /// Frames that every stack begins with. Raw tracepoints take their registers inside of the program: the program and `bpf_trace_run<n>` come first
    /// (`kernel/trace/bpf_trace.c`); others have the registers of the place that was hit.
    fn frames_of_program(&self) -> i64 {
        match self.context.program {
            ProgramKind::RawTracepoint | ProgramKind::TracingTracepoint => 2,
            _ => 0,
        }
    }
}
