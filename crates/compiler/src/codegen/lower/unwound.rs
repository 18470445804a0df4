//! Stacks of processes without frame pointers, found by the tables of [`crate::unwind`]: one function looks for the rule of an address, a loop goes from frame to frame.

use super::Lower;
use crate::check::tree::Access;
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Builder, Condition, Slot, Vreg, Width, helper};
use crate::unwind::{
    CHUNK, CHUNK_ROWS, CHUNKS, END, ENTRY, HEAD, MAX_ENTRIES, PROCESSES, ROW, ROWS, RULES, SHIFT, kind,
};
use kestrel_bpf::code::SourceRange as Span;

/// The function that finds the rule of an address.
const RULE: &str = "unwind rule";

/// Registers of the frame that is looked at, and how it was found.
#[derive(Clone, Copy)]
struct Frame {
    ip: Vreg,
    sp: Vreg,
    bp: Vreg,
    /// 1 for the innermost frame, else 0.
    first: Vreg,
    /// 1 where the instruction at the address is the next one, 0 where it follows a call.
    next: Vreg,
}

/// Caller of a frame as a rule has it: its stack pointer, where its rbp and its address are saved; an address of 0 where rbp is the same.
#[derive(Clone, Copy)]
struct Caller {
    cfa: Vreg,
    bp_at: Vreg,
    ip_at: Vreg,
    /// As [`Frame::next`].
    next: Vreg,
}

impl Lower<'_> {
    /// Writes the stack that tables tell, in its form for keeping: the number of frames, the frames, zeroes, the process.
    pub(super) fn put_unwound(
        &mut self,
        max: u32,
        (slot, offset, size): (Slot, u32, u32),
        span: Span,
    ) -> Result<(), Error> {
        let Some(at) = self.context.features.user_registers else {
            return Err(Error::Malformed {
                what: "a stack to be unwound where the process's registers are not known",
                span,
            });
        };
        self.clear(slot, offset, offset + size);
        if max == 0 {
            return Ok(());
        }
        self.b.own(RULE, rule_of);
        let both = self.task_numbers();
        let process = self.b.shift_right(both, 32);
        let to = self.b.slot_address(slot, offset + size - 8);
        self.b.store(Width::B8, to, 0, process);
        let task = self.b.helper(helper::GET_CURRENT_TASK_BTF, &[]);
        let registers = self.b.helper(helper::TASK_PT_REGS, &[task.into()]);
        let mut register = |offset: u32| {
            let (now, kept) = (self.b.load(Width::B8, registers, offset as i16), self.b.vreg());
            self.b.assign(kept, now);
            kept
        };
        let [ip, sp, bp] = [at.ip, at.sp, at.bp].map(&mut register);
        let [first, next, left] = [1, 1, i64::from(max)].map(|value| {
            let kept = self.b.vreg();
            self.b.assign(kept, value);
            kept
        });
        let frame = Frame {
            ip,
            sp,
            bp,
            first,
            next,
        };
        let (head, done) = (self.b.block(), self.b.block());
        // A thread of the kernel has none.
        self.b.branch(Condition::Equal, ip, 0, done, head);
        self.b.switch_to(head);
        // Where it follows a call that does not return, the next function may begin there.
        let behind = self.b.add(ip, -1);
        let address = self.b.add(behind, next);
        let rule = self.b.call(RULE, &[process.into(), address.into()]);
        let what = self.b.and(rule, (1 << kind::BITS) - 1);
        let (outside, inside) = (self.b.block(), self.b.block());
        self.b.branch(
            Condition::Equal,
            what,
            kind::NO_CODE.cast_signed(),
            outside,
            inside,
        );
        self.b.switch_to(outside);
        // What was taken for a return address leads nowhere.
        self.b.branch(Condition::Equal, first, 0, done, inside);
        self.b.switch_to(inside);
        // The verifier knows how often this was reached, and so where it writes.
        let all = self.b.constant(i64::from(max));
        let place = self.b.sub(all, left);
        let distance = self.b.shift_left(place, 3);
        let frames = self.b.slot_address(slot, offset + 8);
        let to = self.b.add(frames, distance);
        self.b.store(Width::B8, to, 0, ip);
        let count = self.b.add(place, 1);
        let to = self.b.slot_address(slot, offset);
        self.b.store(Width::B8, to, 0, count);
        let fewer = self.b.sub(left, 1);
        self.b.assign(left, fewer);
        self.b.branch_if(Condition::Equal, left, 0, done);
        let unknown = self.b.cold_block();
        self.b
            .branch_if(Condition::Equal, what, kind::NO_PROCESS.cast_signed(), unknown);
        let caller = self.caller((what, rule), frame, done);
        self.go_to(caller, frame, done);
        self.b.jump(head);
        self.b.switch_to(unknown);
        self.no_unwind_tables();
        self.b.jump(done);
        self.b.switch_to(done);
        Ok(())
    }

    /// Applies a rule to a frame; goes to `done` where it has no caller.
    fn caller(&mut self, (what, rule): (Vreg, Vreg), frame: Frame, done: BlockId) -> Caller {
        let caller = Caller {
            cfa: self.b.vreg(),
            bp_at: self.b.vreg(),
            ip_at: self.b.vreg(),
            next: self.b.vreg(),
        };
        self.b.assign(caller.bp_at, 0);
        self.b.assign(caller.next, 0);
        let up = self.b.shift_left(rule, i64::from(kind::OFFSET_BITS));
        let down = i64::from(kind::BITS + kind::OFFSET_BITS);
        let cfa = self.b.alu(AluOp::ShiftRightSigned, Bits::B64, up, down);
        let saved = self.b.alu(AluOp::ShiftRightSigned, Bits::B64, rule, down);
        let (known, found) = (self.b.block(), self.b.block());
        self.b
            .branch_if(Condition::Equal, what, kind::END.cast_signed(), done);
        let kinds = [
            (kind::STACK, frame.sp, false),
            (kind::STACK_SAVED, frame.sp, true),
            (kind::FRAME, frame.bp, false),
            (kind::FRAME_SAVED, frame.bp, true),
        ];
        for (kind, base, saves) in kinds {
            let (yes, no) = (self.b.block(), self.b.block());
            self.b.branch(Condition::Equal, what, kind.cast_signed(), yes, no);
            self.b.switch_to(yes);
            let address = self.b.add(base, cfa);
            self.b.assign(caller.cfa, address);
            if saves {
                let at = self.b.add(address, saved);
                self.b.assign(caller.bp_at, at);
            }
            self.b.jump(known);
            self.b.switch_to(no);
        }
        let [plt, signal, gap] = [kind::PLT, kind::SIGNAL, kind::GAP].map(|kind| {
            let yes = self.b.block();
            self.b.branch_if(Condition::Equal, what, kind.cast_signed(), yes);
            yes
        });
        // By the frame pointer.
        let by_frame_pointer = self.b.block();
        self.b.jump(by_frame_pointer);
        self.b.switch_to(by_frame_pointer);
        self.b.branch_if(Condition::Equal, frame.bp, 0, done);
        let address = self.b.add(frame.bp, 16);
        self.b.assign(caller.cfa, address);
        self.b.branch_if(Condition::LessEqual, address, frame.sp, done);
        self.b.assign(caller.bp_at, frame.bp);
        self.b.jump(known);

        self.b.switch_to(gap);
        self.b
            .branch_if(Condition::Equal, frame.first, 0, by_frame_pointer);
        let address = self.b.add(frame.sp, 8);
        self.b.assign(caller.cfa, address);
        self.b.jump(known);

        self.b.switch_to(plt);
        let address = self.b.add(frame.sp, cfa);
        self.b.assign(caller.cfa, address);
        let within = self.b.and(frame.ip, 15);
        self.b.branch_if(Condition::Less, within, saved, known);
        let address = self.b.add(address, 8);
        self.b.assign(caller.cfa, address);
        self.b.jump(known);

        self.b.switch_to(known);
        let at = self.b.sub(caller.cfa, 8);
        self.b.assign(caller.ip_at, at);
        // Callers lie further up; the innermost function may have moved its rbp already.
        let outer = self.b.block();
        self.b.branch(Condition::Equal, frame.first, 0, outer, found);
        self.b.switch_to(outer);
        self.b
            .branch(Condition::LessEqual, caller.cfa, frame.sp, done, found);

        // The stack of a signal's handler may be another one.
        self.b.switch_to(signal);
        let at = self.b.add(frame.sp, cfa);
        let sp = self.word_of_process(at, done);
        self.b.assign(caller.cfa, sp);
        let ip_at = self.b.add(at, 8);
        self.b.assign(caller.ip_at, ip_at);
        let at = self.b.add(frame.sp, saved);
        self.b.assign(caller.bp_at, at);
        self.b.assign(caller.next, 1);
        self.b.jump(found);

        self.b.switch_to(found);
        caller
    }

    /// Makes the caller the frame that is looked at; goes to `done` where its registers cannot be read.
    fn go_to(&mut self, caller: Caller, frame: Frame, done: BlockId) {
        let (saved, read) = (self.b.block(), self.b.block());
        self.b.branch(Condition::Equal, caller.bp_at, 0, read, saved);
        self.b.switch_to(saved);
        let bp = self.word_of_process(caller.bp_at, done);
        self.b.assign(frame.bp, bp);
        self.b.jump(read);
        self.b.switch_to(read);
        let ip = self.word_of_process(caller.ip_at, done);
        self.b.branch_if(Condition::Equal, ip, 0, done);
        self.b.assign(frame.ip, ip);
        self.b.assign(frame.sp, caller.cfa);
        self.b.assign(frame.first, 0);
        self.b.assign(frame.next, caller.next);
    }

    /// The word of the process's memory at an address; goes to `done` where there is none.
    fn word_of_process(&mut self, at: Vreg, done: BlockId) -> Vreg {
        let slot = self.b.slot(8, 8);
        let to = self.b.slot_address(slot, 0);
        let reader = self.reader(Access::User);
        let failed = self.b.helper(reader, &[to.into(), 8.into(), at.into()]);
        self.b.branch_if(Condition::NotEqual, failed, 0, done);
        let from = self.b.slot_address(slot, 0);
        self.b.load(Width::B8, from, 0)
    }
}

/// The body of the function: the rule of a process's code at an address.
fn rule_of(b: &mut Builder, [process, address]: [Vreg; 2]) {
    let key = b.slot(8, 8);
    let absent = [kind::NO_PROCESS, kind::NO_CODE, kind::FRAME_POINTER].map(|answer| {
        let (block, now) = (b.block(), b.current());
        b.switch_to(block);
        b.exit(answer.cast_signed());
        b.switch_to(now);
        block
    });
    let [no_process, no_code, no_rows] = absent;
    let entries = look_up(b, (PROCESSES, key), process, no_process);
    let count = b.load(Width::B8, entries, 0);
    b.branch_if(Condition::Equal, count, 0, no_code);
    let table = Table {
        at: b.add(entries, HEAD),
        element: ENTRY,
        most: MAX_ENTRIES,
        width: Width::B8,
    };
    let entry = table.find(b, count, address, no_code);
    let end = b.load(Width::B8, entry, END);
    b.branch_if(Condition::GreaterEqual, address, end, no_code);
    let shift = b.load(Width::B8, entry, SHIFT);
    let place = b.add(address, shift);
    let chunk = b.load(Width::B4, entry, CHUNK);
    let count = b.load(Width::B4, entry, ROWS);
    b.branch_if(Condition::Equal, count, 0, no_rows);
    let rows = look_up(b, (CHUNKS, key), chunk, no_rows);
    let table = Table {
        at: rows,
        element: ROW,
        most: CHUNK_ROWS,
        width: Width::B4,
    };
    let row = table.find(b, count, place, no_rows);
    let number = b.load(Width::B4, row, 4);
    let rule = look_up(b, (RULES, key), number, no_rows);
    let rule = b.load(Width::B8, rule, 0);
    b.exit(rule);
}

/// The value under a key of four bytes; goes to `none` where there is none.
fn look_up(b: &mut Builder, (map, slot): (&str, Slot), key: Vreg, none: BlockId) -> Vreg {
    let at = b.slot_address(slot, 0);
    b.store(Width::B4, at, 0, key);
    let map = b.external(map);
    let map = b.map_pointer(map);
    let found = b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), at.into()]);
    b.branch_if(Condition::Equal, found, 0, none);
    found
}

/// Elements in the order of the numbers that they begin with.
struct Table {
    at: Vreg,
    element: u32,
    most: u32,
    width: Width,
}

impl Table {
    /// The last of `count` elements whose number is not above the wanted one; goes to `none` where all are. By halving, as often as the largest table needs.
    fn find(&self, b: &mut Builder, count: Vreg, wanted: Vreg, none: BlockId) -> Vreg {
        let (low, left) = (b.vreg(), b.vreg());
        b.assign(low, 0);
        b.assign(left, count);
        let found = b.block();
        for _ in 0..=self.most.ilog2() {
            b.branch_if(Condition::LessEqual, left, 1, found);
            let half = b.shift_right(left, 1);
            let middle = b.add(low, half);
            b.branch_if(Condition::GreaterEqual, middle, self.most, none);
            let element = self.element(b, middle);
            let number = b.load(self.width, element, 0);
            let (upper, lower, join) = (b.block(), b.block(), b.block());
            b.branch(Condition::LessEqual, number, wanted, upper, lower);
            b.switch_to(upper);
            b.assign(low, middle);
            let rest = b.sub(left, half);
            b.assign(left, rest);
            b.jump(join);
            b.switch_to(lower);
            b.assign(left, half);
            b.jump(join);
            b.switch_to(join);
        }
        b.jump(found);
        b.switch_to(found);
        b.branch_if(Condition::GreaterEqual, low, self.most, none);
        let element = self.element(b, low);
        let number = b.load(self.width, element, 0);
        b.branch_if(Condition::Greater, number, wanted, none);
        element
    }

    fn element(&self, b: &mut Builder, index: Vreg) -> Vreg {
        let distance = b.mul(index, self.element);
        b.add(self.at, distance)
    }
}
