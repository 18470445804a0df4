//! Records that programs over recordings write (what they print): a sink for generated code, whose one buffer is emptied after each run.
//!
//! ```text
//!   0 bytes used u64 | 8 records that found no room u64 | 16 time of the recording's begin u64 | 64 records, one after another
//! ```

use kestrel_compiler::check::tree::{Action, Destination};
use kestrel_compiler::ir::{BlockId, Builder, Condition, MapKind, MapSpec, Operand, Vreg, Width};
use kestrel_compiler::sink::{Number, Reservation, Sink, SinkError, Size};

/// The name by which programs refer to the buffer.
pub(crate) const MAP: &str = "output";

/// Offset of the first record.
pub(crate) const DATA: u32 = 64;
/// Bytes for the records of one run.
const ROOM: u32 = 4 << 20;
/// Bytes of the longest record.
const MAX: u32 = 1 << 16;
/// Offsets of the words in front of the records.
pub(crate) const USED: i16 = 0;
pub(crate) const LOST: i16 = 8;
pub(crate) const BEGIN: i16 = 16;

/// The buffer as a map.
pub(crate) fn spec() -> MapSpec {
    MapSpec {
        name: MAP.to_owned(),
        kind: MapKind::Array,
        key: 4,
        value: DATA + ROOM + 2 * MAX,
        entries: 1,
        flags: 0,
    }
}

/// A sink that keeps no records: only the output statements run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output;

impl Sink for Output {
    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        _to: &Destination,
        skip: BlockId,
    ) -> Result<Reservation, SinkError> {
        if size.max() > MAX {
            return Err(SinkError(format!("a record of {} bytes", size.max())));
        }
        let map = b.external(MAP);
        let base = b.map_value(map, 0);
        let used = b.load(Width::B8, base, USED);
        let (full, room) = (b.cold_block(), b.block());
        b.branch(Condition::Greater, used, ROOM, full, room);
        b.switch_to(full);
        b.atomic_add(Width::B8, base, LOST, 1);
        b.jump(skip);
        b.switch_to(room);
        let after = b.add(used, size.operand());
        b.store(Width::B8, base, USED, after);
        let data = b.map_value(map, DATA);
        let record = b.add(data, used);
        let number = match number {
            Operand::Reg(number) => Operand::Reg(b.and(number, 0xffff)),
            number => number,
        };
        b.store(Width::B8, record, 0, number);
        Ok(Reservation {
            record,
            kept: Vec::new(),
            size,
            counted: true,
            subprogram_map: None,
        })
    }

    fn act(&self, _b: &mut Builder, action: &Action) -> Result<(), SinkError> {
        match action {
            // The performer of the output runs nothing more.
            Action::Leave => Ok(()),
            action => Err(SinkError(format!("{action:?} needs a session of tables"))),
        }
    }

    fn commit(&self, _b: &mut Builder, _reservation: Reservation, _alone: bool) {}

    fn start_time(&self, b: &mut Builder) -> Result<Vreg, SinkError> {
        let map = b.external(MAP);
        let base = b.map_value(map, 0);
        Ok(b.load(Width::B8, base, BEGIN))
    }

    fn slack(&self) -> u32 {
        MAX
    }
}
