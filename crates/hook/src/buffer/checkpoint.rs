//! Checkpoints: how many records a CPU's overwriting ring had kept up to a position. From two of them a reader of the newest records (`trace --session`) counts exactly those overwritten before it came to them.

use super::layout::Mode;
use super::memory::Memory;
use super::reader::{PAGE64, Ring, page_of};

/// Records kept in a CPU's ring up to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position in the ring.
    pub position: u64,
    /// Records that had been kept then, since the ring's counts began.
    pub recorded: u64,
}

/// Attempts to find a moment in which no writer is in the middle of a record.
const ATTEMPTS: u32 = 500;
/// Pages before the one in use that an interrupted writer may be in.
const NESTED_PAGES: u64 = 8;

impl<M: Memory> Ring<M> {
    /// Number of records that a CPU's overwriting ring has kept so far, and the position up to which they are counted; `None` in a stream, which does not count them, or when
    /// there is no moment without a writer in the middle of a record.
    pub fn checkpoint(&self, cpu: u32) -> Option<Checkpoint> {
        if self.geometry().mode == Mode::Stream {
            return None;
        }
        let numbers = 0..self.geometry().events.min(1 << 16);
        for _ in 0..ATTEMPTS {
            let position = self.position(cpu);
            if self.newest_are_committed(cpu, position) {
                let recorded = numbers.clone().map(|n| self.counts(cpu, n as u16).recorded).sum();
                if self.position(cpu) == position {
                    return Some(Checkpoint { position, recorded });
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// The checkpoint at the very beginning of a CPU's ring: how many records its counts had begun with; `None` where something was overwritten already.
    pub fn checkpoint_at_start(&self, cpu: u32) -> Option<Checkpoint> {
        let begun = || {
            let mark = self.checkpoint(cpu)?;
            let held = self.events_held(cpu, 0, self.in_use(cpu));
            let same = self.position(cpu) == mark.position && !self.is_overwritten(cpu, 0);
            same.then(|| Checkpoint {
                position: 0,
                recorded: mark.recorded.saturating_sub(held),
            })
        };
        (0..ATTEMPTS).find_map(|_| begun())
    }

    /// Whether every record of the newest pages up to a position is committed: interrupts nest no deeper than that.
    fn newest_are_committed(&self, cpu: u32, position: u64) -> bool {
        let page = page_of(position);
        let newest = page.saturating_sub(NESTED_PAGES * PAGE64);
        self.is_committed(cpu, self.oldest(page).max(newest), position)
    }
}
