//! A sink of a whole session in small: the records of [`Bump`], and one array value of `u64` words that handlers steer and read.
//!
//! A record's time, which no clock gives here, marks the buffer that it went to: 0 to the current buffer, 1 and more to one by name, [`MESSAGES`] to the agent.

use super::bump::Bump;
use kestrel_compiler::check::tree::{Action, Destination};
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg, Width};
use kestrel_compiler::sink::{Number, Reservation, Sink, SinkError, Size};

/// The map's name.
pub const MAP: &str = "steer";
/// Bytes of the map's value.
pub const VALUE: u32 = 512;
/// Where a record of a message goes.
pub const MESSAGES: u16 = 0xffff;

/// Words of the map's value.
pub mod word {
    /// Place of the active table, counted from 1; 0: none.
    pub const ACTIVE: u32 = 0;
    /// Place of the buffer used now.
    pub const CURRENT: u32 = 1;
    /// Whether the program of an object would run.
    pub const CALLED: u32 = 2;
    /// Per buffer: whether it is frozen.
    pub const FROZEN: u32 = 8;
    /// Per buffer: how often it was reset.
    pub const RESET: u32 = 16;
    /// Parameters.
    pub const PARAMETERS: u32 = 32;
}

/// Which handler runs.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// The buffer of the active table: the first for table 1.
    ByTable,
    /// By the instance: the places that each handler is for.
    ByInstance(Vec<Vec<u16>>),
}

#[derive(Clone, Debug)]
pub struct Steered {
    pub chosen: Chosen,
    pub tables: Vec<String>,
    pub buffers: Vec<String>,
    pub parameters: Vec<String>,
}

impl Steered {
    fn place(known: &[String], name: &str) -> Result<u32, SinkError> {
        let place = known.iter().position(|k| k == name);
        place
            .map(|p| p as u32)
            .ok_or_else(|| SinkError(format!("there is no {name}")))
    }

    fn word(b: &mut Builder, index: u32) -> Vreg {
        let map = b.external(MAP);
        b.map_value(map, index * 8)
    }

    fn set(b: &mut Builder, index: u32, value: u32) {
        let word = Self::word(b, index);
        b.store(Width::B8, word, 0, i64::from(value));
    }
}

impl Sink for Steered {
    fn by_instance(&self) -> bool {
        matches!(self.chosen, Chosen::ByInstance(_))
    }

    fn choose(&self, b: &mut Builder, handlers: &[BlockId], instance: Option<Vreg>, skip: BlockId) {
        let go = |b: &mut Builder, value: Vreg, number: usize, to: BlockId| {
            let next = b.block();
            b.branch(Condition::Equal, value, number as i64, to, next);
            b.switch_to(next);
        };
        match &self.chosen {
            Chosen::ByTable => {
                let word = Self::word(b, word::ACTIVE);
                let active = b.load(Width::B8, word, 0);
                for (number, handler) in (1..).zip(handlers) {
                    go(b, active, number, *handler);
                }
            }
            Chosen::ByInstance(sets) => {
                let instance = instance.expect("it was asked for");
                for (set, handler) in sets.iter().zip(handlers) {
                    for place in set {
                        go(b, instance, usize::from(*place), *handler);
                    }
                }
            }
        }
        b.jump(skip);
    }

    fn act(&self, b: &mut Builder, action: &Action) -> Result<(), SinkError> {
        let buffer = |name| Self::place(&self.buffers, name);
        match action {
            Action::UseTable(name) => Self::set(b, word::ACTIVE, Self::place(&self.tables, name)? + 1),
            Action::UseBuffer(name) => Self::set(b, word::CURRENT, buffer(name)?),
            Action::Freeze(name) => Self::set(b, word::FROZEN + buffer(name)?, 1),
            Action::Thaw(name) => Self::set(b, word::FROZEN + buffer(name)?, 0),
            Action::Leave => Self::set(b, word::ACTIVE, 0),
            Action::Call { .. } => Self::set(b, word::CALLED, 1),
            Action::Reset(name) => {
                let word = Self::word(b, word::RESET + buffer(name)?);
                b.atomic_add(Width::B8, word, 0, 1);
            }
        }
        Ok(())
    }

    fn parameter(&self, b: &mut Builder, name: &str) -> Result<Vreg, SinkError> {
        let word = Self::word(b, word::PARAMETERS + Self::place(&self.parameters, name)?);
        Ok(b.load(Width::B8, word, 0))
    }

    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        to: &Destination,
        skip: BlockId,
    ) -> Result<Reservation, SinkError> {
        let mark = match to {
            Destination::Current => 0,
            Destination::Buffer(name) => {
                let place = Self::place(&self.buffers, name)?;
                let word = Self::word(b, word::FROZEN + place);
                let frozen = b.load(Width::B8, word, 0);
                b.branch_if(Condition::NotEqual, frozen, 0, skip);
                place as u16 + 1
            }
            Destination::Messages => MESSAGES,
        };
        let reservation = Bump::default().reserve(b, number, size, to, skip)?;
        b.store(Width::B2, reservation.record, 2, i64::from(mark));
        Ok(reservation)
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation, alone: bool) {
        Bump::default().commit(b, reservation, alone);
    }

    fn start_time(&self, b: &mut Builder) -> Result<Vreg, SinkError> {
        Bump::default().start_time(b)
    }

    fn slack(&self) -> u32 {
        Bump::default().slack()
    }
}
