//! Failures of helpers, counted by place where the sink asks for it.

use super::Lower;
use crate::failures::{DIVISION, ENDLESS, ERRNO, HELPER, KEY, MAP, OUTSIDE, UNWINDING, VALUE};
use crate::ir::{Condition, Helper, Operand, Vreg, Width, helper};

impl Lower<'_> {
    /// Calls a helper that reads memory.
    pub(super) fn read_by(&mut self, helper: Helper, args: &[Operand]) -> Vreg {
        let answer = self.b.helper(helper, args);
        if self.sink.counts_failures() {
            let (failed, next) = (self.b.cold_block(), self.b.block());
            self.b.branch(Condition::SignedLess, answer, 0, failed, next);
            self.b.switch_to(failed);
            self.failed(helper, answer.into());
            self.b.jump(next);
            self.b.switch_to(next);
        }
        answer
    }

    /// Value of a division by zero, as in bpftrace.
    pub(super) fn divided_by_zero(&mut self) -> Vreg {
        if self.sink.counts_divisions() {
            self.count_failure(DIVISION, 0.into());
        }
        self.b.constant(1)
    }

    /// Address 0, which faults harmlessly, in place of an element behind an array's end.
    pub(super) fn outside_of_array(&mut self) -> Vreg {
        if self.sink.counts_divisions() {
            self.count_failure(OUTSIDE, 0.into());
        }
        self.b.constant(0)
    }

    /// Counts a loop that the kernel ends.
    pub(super) fn ended_by_kernel(&mut self) {
        if self.sink.counts_divisions() {
            self.count_failure(ENDLESS, 0.into());
        }
    }

    /// Counts a stack of a process without tables.
    pub(super) fn no_unwind_tables(&mut self) {
        if self.sink.counts_divisions() {
            self.count_failure(UNWINDING, 0.into());
        }
    }

    /// Counts a failure at the place that is being lowered.
    pub(super) fn failed(&mut self, helper: Helper, answer: Operand) {
        if self.sink.counts_failures() {
            self.count_failure(helper, answer);
        }
    }

    /// Counts an update of a full map (E2BIG) at the place that is being lowered.
    pub(super) fn update_failed(&mut self) {
        if self.sink.counts_updates() {
            self.count_failure(helper::MAP_UPDATE_ELEM, (-7).into());
        }
    }

    fn count_failure(&mut self, helper: Helper, answer: Operand) {
        let span = self.b.span();
        let slots = (self.b.slot(KEY, 8), self.b.slot(VALUE, 8));
        let (key, zero) = (self.b.slot_address(slots.0, 0), self.b.slot_address(slots.1, 0));
        self.b.store(Width::B4, key, 0, span.start);
        self.b.store(Width::B4, key, 4, span.end);
        self.b.store(Width::B4, key, HELPER, helper.0);
        self.b.store(Width::B4, key, ERRNO, answer);
        self.b.store(Width::B8, zero, 0, 0);
        let now = self.b.helper(helper::KTIME_GET_NS, &[]);
        self.b.store(Width::B8, zero, 8, now);
        let external = self.b.external(MAP);
        let map = self.b.map_pointer(external);
        let args = [
            map.into(),
            key.into(),
            zero.into(),
            helper::NOEXIST.cast_signed().into(),
        ];
        self.b.helper(helper::MAP_UPDATE_ELEM, &args);
        let counter = self.b.vreg();
        let map = self.b.map_pointer(external);
        let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        self.b.assign(counter, found);
        let (full, count, end) = (self.b.cold_block(), self.b.block(), self.b.block());
        self.b.branch(Condition::Equal, counter, 0, full, count);
        self.b.switch_to(full);
        self.b.store(Width::B8, key, 0, 0);
        self.b.store(Width::B8, key, HELPER, 0);
        let map = self.b.map_pointer(external);
        let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        self.b.assign(counter, found);
        self.b.branch(Condition::Equal, counter, 0, end, count);
        self.b.switch_to(count);
        self.b.atomic_add(Width::B8, counter, 0, 1);
        self.b.jump(end);
        self.b.switch_to(end);
    }
}
