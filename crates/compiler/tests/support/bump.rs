//! The simplest sink that keeps records: one array value, `u64` bytes used, `u64` records committed, then records one after another.

use kestrel_compiler::check::tree::Destination;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_compiler::sink::{Number, Reservation, Sink, SinkError, Size};

/// Where records begin.
pub const DATA: u32 = 64;
/// Bytes for records; a power of two.
pub const ROOM: u32 = 1 << 15;
/// Bytes of the map's value.
pub const VALUE: u32 = DATA + ROOM + 8192;
/// Where the start time stands.
pub const START: i16 = 16;
/// The map's name.
pub const MAP: &str = "bump";

#[derive(Clone, Copy, Debug, Default)]
pub struct Bump {
    /// Asks for preemption off between reserve and commit.
    pub preemption_off: bool,
    /// Asks for preemption off in the whole program.
    pub whole: bool,
    /// Asks for failures of helpers to be counted.
    pub failures: bool,
}

impl Sink for Bump {
    fn counts_failures(&self) -> bool {
        self.failures
    }

    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        _to: &Destination,
        skip: BlockId,
    ) -> Result<Reservation, SinkError> {
        if size.max() > 4096 {
            return Err(SinkError(format!("a record of {} bytes", size.max())));
        }
        let map = b.external(MAP);
        let base = b.map_value(map, 0);
        let old = b.fetch(
            kestrel_compiler::ir::AtomicOp::Add,
            Width::B8,
            base,
            0,
            size.operand(),
        );
        b.branch_if(Condition::Greater, old, ROOM - 4096, skip);
        let offset = b.and(old, i64::from(ROOM - 1) & !7);
        let data = b.map_value(map, DATA);
        let record = b.add(data, offset);
        let number = match number {
            Operand::Reg(v) => Operand::Reg(b.and(v, 0xffff)),
            number => number,
        };
        b.store(Width::B8, record, 0, number);
        Ok(Reservation {
            record,
            kept: vec![base],
            size,
            counted: true,
            subprogram_map: None,
        })
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation, _alone: bool) {
        b.atomic_add(Width::B8, reservation.kept[0], 8, 1);
    }

    fn start_time(&self, b: &mut Builder) -> Result<Vreg, SinkError> {
        let map = b.external(MAP);
        let base = b.map_value(map, 0);
        Ok(b.load(Width::B8, base, START))
    }

    fn slack(&self) -> u32 {
        8192
    }

    fn wants_preemption_off_throughout(&self) -> bool {
        self.whole
    }

    fn wants_preemption_off(&self) -> bool {
        self.preemption_off
    }
}
