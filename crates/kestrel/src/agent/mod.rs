//! The agent: acts in user space on what handlers ask for (`notify`, `exec`); a session goes on without it, and what was asked waits in its ring.
//!
//! A message is a record in the session's `messages` buffer, a stream. It is acknowledged once it was acted on, one by one and in the
//! ring itself: an agent that dies leaves the rest to the next one. What it was acting on at that moment may be done again.

pub mod limit;
pub mod log;
pub mod metrics;
pub mod run;
pub mod user;

use crate::buffer::Buffer;
use crate::buffer::memory::Memory;
use crate::buffer::ring::Ring;
use crate::error::Result;
pub use kestrel_compiler::check::tree::Message;
use kestrel_kernel::procfs;
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{HEADER, PAGE};
use kestrel_trace::record::Record;
use std::collections::HashMap;

/// The name of the buffer that messages go through.
pub const BUFFER: &str = crate::session::gate::MESSAGES;
/// Bytes of it per CPU.
pub const BYTES: u64 = 64 << 10;

/// What to do about a message that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was acted on, or never will be: go on with the next.
    Done,
    /// Not now: it stays, and so do those behind it.
    Later,
}

/// The messages of one session.
#[derive(Debug)]
pub struct Inbox {
    buffer: Buffer,
    events: EventTable,
    /// By the number of the record.
    meanings: HashMap<u16, Message>,
    lost: u64,
}

impl Inbox {
    /// The inbox over a session's messages buffer; `meanings` says by record number what each asks for.
    pub fn new(buffer: Buffer, events: EventTable, meanings: HashMap<u16, Message>) -> Self {
        Self {
            buffer,
            events,
            meanings,
            lost: 0,
        }
    }

    /// The same inbox as it is after the session was changed: other events and meanings, perhaps another ring.
    #[must_use]
    pub fn renewed(&self, now: Self) -> Self {
        Self {
            lost: self.lost,
            ..now
        }
    }

    /// Shows every message that waits, oldest first on each CPU, and acknowledges those that were acted on. Gives their number.
    ///
    /// # Errors
    /// Those of `act`; what was acknowledged before stays so.
    pub fn poll(&mut self, act: &mut dyn FnMut(&Message, &Record<'_>) -> Result<Answer>) -> Result<usize> {
        let mut acted = 0;
        let cpus: Vec<u32> = self.buffer.ring().cpus().collect();
        for cpu in cpus {
            let meanings = &self.meanings;
            let mut act = |record: &Record<'_>| match meanings.get(&record.event.id.0) {
                Some(message) => act(message, record),
                None => Ok(Answer::Done),
            };
            for ring in self.buffer.rings_mut() {
                acted += attend(ring, cpu, procfs::monotonic(), &self.events, &mut act)?;
                if ring.is_waiting(cpu) {
                    break; // what came later has its turn later
                }
            }
        }
        Ok(acted)
    }

    /// Messages refused since the last call, because the ring was full: nobody listened for long, or there are too many.
    pub fn take_lost(&mut self) -> u64 {
        let all = self.buffer.discarded();
        all.saturating_sub(std::mem::replace(&mut self.lost, all))
    }
}

/// Shows the records of a CPU's stream ring that nobody has acknowledged, oldest first, and acknowledges each that was acted on, until one is
/// to be asked for later. Gives the number of those acted on.
///
/// # Errors
/// Those of `act`; what was acknowledged before stays so.
pub fn attend<M: Memory>(
    ring: &mut Ring<M>,
    cpu: u32,
    now: u64,
    events: &EventTable,
    act: &mut dyn FnMut(&Record<'_>) -> Result<Answer>,
) -> Result<usize> {
    let mut acted = 0;
    for page in ring.pending(cpu, now)? {
        let Ok(packet) = Packet::parse(&page.bytes) else {
            continue;
        };
        let mut at = HEADER;
        for record in packet.records(events).map_while(std::result::Result::ok) {
            let end = at + record.bytes.len() as u32;
            if at >= page.from {
                if act(&record)? == Answer::Later {
                    return Ok(acted);
                }
                acted += 1;
                ring.acknowledge(cpu, page.position + u64::from(end));
            }
            at = end;
        }
        if page.whole {
            let next = page.position + u64::from(PAGE);
            ring.acknowledge(cpu, next + u64::from(HEADER));
        }
    }
    Ok(acted)
}
