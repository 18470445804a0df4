//! The sink of one buffer's ring, and what all parts of its code need: addresses in the ring, and counters.

use crate::buffer::bell::Bell;
use crate::buffer::layout::{COUNTER, Geometry, Mode, offset};
use crate::buffer::name::MESSAGES;
use kestrel_bpf::helper;
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_compiler::sink::{Number, Reservation, Size, is_piece};
use kestrel_trace::packet::PAGE;

/// Name by which programs refer to a buffer's map.
pub fn map_name(buffer: &str) -> String {
    format!("ring:{buffer}")
}

/// Writes records into one buffer.
#[derive(Clone, Debug)]
pub struct RingSink {
    /// The buffer's map, as programs name it.
    pub map: String,
    /// The buffer's shape.
    pub geometry: Geometry,
    /// Whether the program has copies, which may run beside it on one CPU.
    pub reentrant: bool,
    /// Bell that wakes the buffer's reader.
    pub bell: Bell,
    /// The part of its code that is a BPF subprogram.
    pub outlined: Outlined,
    /// Whether what the verifier goes through counts for more than some nanoseconds of each record (scripts): where there are functions, room is found by a call
    /// alone, and process and thread are written there.
    pub brief: bool,
}

/// Degree of outlining: the part of the writer's code that is a BPF subprogram, which the verifier goes through once and not for every record. Where programs call
/// others (tail calls), or have switched preemption off, the kernel takes no such functions or not everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outlined {
    /// No part of the code.
    #[default]
    None,
    /// The slow path, where the first attempt to reserve fails: a record costs no call.
    SlowPath,
    /// All but the record's contents.
    All,
}

impl RingSink {
    fn position_mask(&self) -> i64 {
        i64::from(self.geometry.data() - 1)
    }

    pub(super) fn region(&self, b: &mut Builder, lost: BlockId) -> Vreg {
        let map = b.external(&self.map);
        let cpu = b.helper(helper::GET_SMP_PROCESSOR_ID, &[]);
        let key = b.slot(4, 4);
        let key = b.slot_address(key, 0);
        b.store(Width::B4, key, 0, cpu);
        let map = b.map_pointer(map);
        let region = b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        b.branch_if(Condition::Equal, region, 0, lost);
        region
    }

    /// The ring of this CPU, looked up before where a handler begins (`Sink::prepare`).
    pub(super) fn own_region(&self, b: &mut Builder, lost: BlockId) -> Vreg {
        match b.named_value(&self.map) {
            Some(region) => region,
            None => self.region(b, lost),
        }
    }

    /// Whether room is found by a call of a function, which also writes process and thread.
    pub(super) fn reserves_apart(&self, number: Number) -> bool {
        (self.outlined == Outlined::All || (self.brief && self.outlined != Outlined::None))
            && !is_piece(number)
    }

    /// Address of the page that holds a position.
    pub(super) fn page(&self, b: &mut Builder, region: Vreg, position: Vreg) -> Vreg {
        let within = b.and(position, self.position_mask() & !i64::from(PAGE - 1));
        let page = b.add(region, within);
        b.add(page, self.geometry.control())
    }

    /// Address of the counters of an event number: recorded, then lost.
    pub(super) fn counters(&self, b: &mut Builder, region: Vreg, number: Number) -> Vreg {
        let counters = match number {
            Operand::Imm(n) => b.add(region, n * i64::from(COUNTER)),
            Operand::Reg(n) => {
                let at = b.and(n, i64::from(self.geometry.number_mask()));
                let at = b.alu(AluOp::Mul, Bits::B64, at, COUNTER);
                b.add(region, at)
            }
        };
        b.add(counters, offset::COUNTERS)
    }

    /// Counts a record. One program writes all records of a number, and the kernel never runs a program on a CPU where it is running
    /// already (`prog->active` or `bpf_prog_active`), so no other program changes this counter meanwhile and no lock is needed; but for programs that
    /// have copies ([`Self::reentrant`]).
    pub(super) fn count_recorded(&self, b: &mut Builder, region: Vreg, number: Number) {
        let counters = self.counters(b, region, number);
        if self.reentrant {
            b.atomic_add(Width::B8, counters, 0, 1);
            return;
        }
        let before = b.load(Width::B8, counters, 0);
        let after = b.add(before, 1);
        b.store(Width::B8, counters, 0, after);
    }

    /// Room that was found for a record of this number, which its commit does not look for again.
    pub(super) fn reservation(
        &self,
        b: &mut Builder,
        (region, page, record): (Vreg, Vreg, Vreg),
        number: Number,
        size: Size,
    ) -> Reservation {
        let counted = !is_piece(number);
        if self.counts() && counted {
            self.count_recorded(b, region, number);
        }
        let number = b.materialize(number);
        let mut kept = vec![region, page, number];
        if self.bell == Bell::Records {
            // Once more: its control page says whether a reader waits for the record.
            kept.push(region);
        }
        Reservation {
            record,
            kept,
            size,
            counted,
            subprogram_map: None,
        }
    }

    /// Counts a record that is not taken, and leaves. A piece of a stack is missed by who finds the stack's frames.
    pub(super) fn lose(&self, b: &mut Builder, region: Vreg, number: Number, lost: BlockId) {
        if is_piece(number) {
            return b.jump(lost);
        }
        let counters = self.counters(b, region, number);
        Self::count_lost(b, region, counters);
        b.jump(lost);
    }

    /// Counts a record that is not taken, of the event whose counters these are.
    pub(super) fn count_lost(b: &mut Builder, region: Vreg, counters: Vreg) {
        let one = b.constant(1);
        b.atomic_add(Width::B8, region, offset::LOST as i16, one);
        b.atomic_add(Width::B8, counters, 8, one);
    }

    /// Counts a record as lost because the buffer is frozen, and goes to `lost`.
    pub(crate) fn emit_lose_frozen(&self, b: &mut Builder, number: Number, lost: BlockId) {
        if is_piece(number) {
            return b.jump(lost);
        }
        let region = self.region(b, lost);
        self.check_number(b, number, lost);
        b.atomic_add(Width::B8, region, offset::FROZEN as i16, 1);
        self.lose(b, region, number, lost);
    }

    /// Leaves if there are no counters for a number that is known at run time only.
    pub(super) fn check_number(&self, b: &mut Builder, number: Number, lost: BlockId) {
        if let Operand::Reg(n) = number {
            b.branch_if(Condition::GreaterEqual, n, self.geometry.events, lost);
        }
    }

    /// Registers that a reservation keeps for its commit: where each record may wake a reader, the control page of the bell, too.
    pub fn kept(&self) -> usize {
        3 + usize::from(self.bell == Bell::Records)
    }

    /// Adds to the commit a look at the ring's bell, whatever wakes its reader.
    pub(crate) fn give_bell(reservation: &mut Reservation) {
        reservation.kept.extend(reservation.kept.first().copied());
    }

    /// Whether records are counted where they are written: of other streams each reader has all to count.
    pub(super) fn counts(&self) -> bool {
        self.geometry.mode == Mode::Overwrite || self.map == map_name(MESSAGES)
    }

    /// The address of the record at a position.
    pub(super) fn record(&self, b: &mut Builder, region: Vreg, begin: Vreg) -> Vreg {
        let within = b.and(begin, self.position_mask() & !7);
        let record = b.add(region, within);
        b.add(record, self.geometry.control())
    }
}
