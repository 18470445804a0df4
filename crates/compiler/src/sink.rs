//! The interface of a buffer to generated code: reserve room for a record, commit it; buffers themselves are unknown here.

use crate::check::tree::{Action, Destination};
use crate::ir::{BlockId, Builder, Operand, Vreg};
use kestrel_trace::stack_pieces::PIECE;

/// Number of the event class in the record's header.
pub type Number = Operand;

/// Whether records of this number are pieces of stacks.
pub fn is_piece(number: Number) -> bool {
    number == Operand::Imm(i64::from(PIECE.0))
}

/// Size of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A fixed number of bytes, a multiple of 8.
    Constant(u32),
    /// `value` bytes at run time: a multiple of 8, at most `max` (also a multiple of 8), which the verifier knows from a mask or
    /// a comparison on `value`.
    #[allow(missing_docs, reason = "the variant says what they are")]
    Variable { value: Vreg, max: u32 },
}

impl Size {
    /// Most bytes it can be.
    pub fn max(self) -> u32 {
        match self {
            Self::Constant(size) => size,
            Self::Variable { max, .. } => max,
        }
    }

    /// As an operand of arithmetic.
    pub fn operand(self) -> Operand {
        match self {
            Self::Constant(size) => size.into(),
            Self::Variable { value, .. } => value.into(),
        }
    }
}

/// Room for one record, between [`Sink::reserve`] and [`Sink::commit`].
#[derive(Clone, Debug)]
pub struct Reservation {
    /// Address of the record. The verifier lets stores reach [`Size::max`] bytes, and probe reads whatever else the sink
    /// promises beyond ([`Sink::slack`]).
    pub record: Vreg,
    /// Registers that the sink itself needs to commit; the same come back.
    pub kept: Vec<Vreg>,
    /// The size that was asked for.
    pub size: Size,
    /// Whether it counts as an event: pieces of stacks do not.
    pub counted: bool,
    /// The map that it lies in, where it is the sink's functions that reserve and commit.
    pub subprogram_map: Option<String>,
}

/// A sink could not make its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the buffer cannot serve this program: {0}")]
pub struct SinkError(pub String);

/// Where generated code puts records: emits the code that reserves room for one and commits it.
pub trait Sink {
    /// Appends code that goes to `skip` when this event is not wanted now (the hook is masked, the process is not traced); it
    /// runs first of all.
    fn admit(&self, _b: &mut Builder, _refused: BlockId) {}

    /// Whether [`Sink::choose`] asks which of the events it is that one program serves.
    fn by_instance(&self) -> bool {
        false
    }

    /// Appends code that goes to the handler that this event has now, or to `skip` where it has none; it runs right after
    /// [`Sink::admit`]. There is at least one handler; `instance` is there where [`Sink::by_instance`] asks for it.
    fn choose(&self, b: &mut Builder, handlers: &[BlockId], _instance: Option<Vreg>, skip: BlockId) {
        b.jump(handlers.first().copied().unwrap_or(skip));
    }

    /// Appends code that runs for each event that reaches a handler, before the user's predicate.
    fn entered(&self, _b: &mut Builder, _refused: BlockId) {}

    /// Appends code that the handler's records have in common, of which there are so many; it runs where the handler begins, behind its predicate, and goes to `skip`
    /// where none of them could be kept.
    fn prepare(&self, _b: &mut Builder, _records: usize, _skip: BlockId) {}

    /// Whether [`Sink::reserve`] writes process and thread into records of this number.
    fn identifies(&self, _number: Number) -> bool {
        false
    }

    /// Appends code that does something to the session.
    ///
    /// # Errors
    /// When there is no session that could do it, which is the default.
    fn act(&self, _b: &mut Builder, action: &Action) -> Result<(), SinkError> {
        Err(SinkError(format!("{action:?} needs a session of tables")))
    }

    /// Appends code that gives the value of a parameter.
    ///
    /// # Errors
    /// When there is no such thing, which is the default.
    fn parameter(&self, _b: &mut Builder, name: &str) -> Result<Vreg, SinkError> {
        Err(SinkError(format!("it has no parameter {name}")))
    }

    /// Appends code that gives 1 where the thread of this number is one that the session follows, else 0.
    ///
    /// # Errors
    /// When it follows none, which is the default.
    fn is_target(&self, _b: &mut Builder, _thread: Vreg) -> Result<Vreg, SinkError> {
        Err(SinkError("it follows no processes".to_owned()))
    }

    /// Appends code that reserves room for a record of `size` bytes (a multiple of 8) of event `number`, and goes to
    /// `skip` when there is none, which the sink has counted by then.
    ///
    /// The header (id and time, 8 bytes) is the sink's; the caller fills everything from offset 8 on. Records of the number
    /// [`is_piece`] says so of are no events: a sink counts neither those that it keeps nor those that it refuses.
    ///
    /// # Errors
    /// When no record of this size can ever be kept.
    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        to: &Destination,
        skip: BlockId,
    ) -> Result<Reservation, SinkError>;

    /// Appends code that makes the record whole for readers. `alone`: no other task runs on this CPU between reservation and commit,
    /// only interrupts, and those to their end.
    fn commit(&self, b: &mut Builder, reservation: Reservation, alone: bool);

    /// Appends code that gives the time (of `bpf_ktime_get_ns`) at which the session started.
    ///
    /// # Errors
    /// When there is no such thing, which is the default.
    fn start_time(&self, _b: &mut Builder) -> Result<Vreg, SinkError> {
        Err(SinkError("it has no start time".to_owned()))
    }

    /// Bytes that may be written beyond the end of any record without harm as the verifier sees it: what lets a copy of
    /// bounded, variable length go straight into the record.
    fn slack(&self) -> u32 {
        0
    }

    /// Whether failures of helpers are counted in the map [`crate::failures::MAP`].
    fn counts_failures(&self) -> bool {
        false
    }

    /// Whether updates of maps that found no room are counted there by their places, too.
    fn counts_updates(&self) -> bool {
        self.counts_failures()
    }

    /// Whether divisions by zero, and loops that the kernel ends, are counted in that map.
    fn counts_divisions(&self) -> bool {
        self.counts_failures()
    }

    /// Whether the program should run with preemption off from its first instruction to its last, so that a thread is preempted behind it and not
    /// inside of it: only where the kernel has the functions for that, and where the program calls no other ([`crate::codegen::lower::emit_preemption_on`]).
    fn wants_preemption_off_throughout(&self) -> bool {
        false
    }

    /// Whether the code between reserve and commit should run with preemption off where the event allows preemption.
    fn wants_preemption_off(&self) -> bool {
        false
    }
}
