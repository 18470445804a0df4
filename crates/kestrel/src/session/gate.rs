//! What stands before every handler of a session: is a table active, is this process wanted; then the ring.

use super::{control, target};
use crate::buffer::emit::RingSink;
use kestrel_compiler::ir::{BlockId, Builder, Vreg};
use kestrel_compiler::sink::{Number, Refused, Reservation, Sink, Size};

/// A ring behind a session's gate.
#[derive(Clone, Debug)]
pub struct GatedSink {
    /// Where records go.
    pub ring: RingSink,
    /// Whether only followed processes are wanted.
    pub followed: bool,
}

impl Sink for GatedSink {
    fn admit(&self, b: &mut Builder, refused: BlockId) {
        control::emit_active(b, refused);
        if self.followed {
            target::emit_admit(b, refused);
        }
    }

    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        refused: BlockId,
    ) -> Result<Reservation, Refused> {
        self.ring.reserve(b, number, size, refused)
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation) {
        self.ring.commit(b, reservation);
    }

    fn start_time(&self, b: &mut Builder) -> Result<Vreg, Refused> {
        Ok(control::emit_start(b))
    }

    fn slack(&self) -> u32 {
        self.ring.slack()
    }

    fn wants_preemption_off(&self) -> bool {
        self.ring.wants_preemption_off()
    }
}
