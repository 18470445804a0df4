//! The agent: acts in user space on what handlers ask for (`notify`, `exec`, `dump`); a session goes on without it, and what was asked waits in its ring.
//!
//! A message is a record in the session's `messages` buffer, a stream. It is acknowledged in the ring itself once it was acted on: an agent that dies leaves the rest to
//! the next one. What it was acting on at that moment, and what came after a command that waits for its turn, may be done again.

pub mod dumps;
pub mod limit;
pub mod log;
pub mod mail;
pub mod metrics;
pub mod run;
pub mod user;

use crate::session::stay::PinnedSession;
use kestrel_catalog::{Error, Result};
pub use kestrel_compiler::check::tree::{Message, dump_time};
use kestrel_hook::buffer::Buffer;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs;
use kestrel_trace::decode::EventTable;
use kestrel_trace::record::Record;
use mail::Mail;
use std::collections::HashMap;

/// The name of the buffer that messages go through.
pub use kestrel_hook::buffer::name::MESSAGES as BUFFER;
/// Bytes of it per CPU.
pub use kestrel_hook::buffer::name::MESSAGES_BYTES as BYTES;

/// What to do about a message that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was acted on, or never will be.
    Done,
    /// Not now: it waits, while those behind it are looked at.
    Later,
}

/// The messages of one session.
#[derive(Debug)]
pub struct Inbox {
    buffer: Buffer,
    events: EventTable,
    /// By the number of the record.
    meanings: HashMap<u16, Message>,
    mail: Mail,
    /// Whether what was lost is asked for the first time.
    first: bool,
}

/// Messages that a session's buffer refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub count: u64,
    /// Whether that was before this agent listened.
    pub before: bool,
    /// Bytes per CPU that the buffer holds.
    pub holds: u64,
}

impl Inbox {
    /// What the handlers of a session have to say to an agent.
    ///
    /// # Errors
    /// The kernel's, or when a part is missing.
    pub fn open(session: &PinnedSession) -> Result<Self> {
        let buffer = session.buffers()?.into_iter().find(|b| b.name() == BUFFER);
        let buffer = buffer.ok_or_else(|| Error::State {
            session: session.name().to_owned(),
            why: "it has no buffer for messages".to_owned(),
        })?;
        let events = EventTable::new(session.info()?.events);
        Ok(Self::new(buffer, events, session.state().messages()))
    }

    /// The inbox over a session's messages buffer; `meanings` says by record number what each asks for.
    pub fn new(buffer: Buffer, events: EventTable, meanings: HashMap<u16, Message>) -> Self {
        Self {
            buffer,
            events,
            meanings,
            mail: Mail::default(),
            first: true,
        }
    }

    /// The same inbox as it is after the session was changed: other events and meanings, perhaps another ring.
    #[must_use]
    pub fn renewed(&mut self, now: Self) -> Self {
        Self {
            mail: std::mem::take(&mut self.mail),
            first: self.first,
            ..now
        }
    }

    /// Shows every message that waits, oldest first over all CPUs, and acknowledges those that were acted on. Gives their number.
    ///
    /// # Errors
    /// Those of `act`; what was acknowledged before stays so.
    pub fn poll(&mut self, act: &mut dyn FnMut(&Message, &Record<'_>) -> Result<Answer>) -> Result<usize> {
        let until = procfs::monotonic();
        let rings = self.buffer.parts(0).map(|(number, part)| (number, part.ring()));
        if self.mail.is_new(rings) {
            // A program that read its clock before that moment has written its record then. A kernel that cannot be asked leaves the order
            // to the length of the rest between two looks.
            let _unasked = wait_for_running_programs();
        }
        let meanings = &self.meanings;
        let mut act = |record: &Record<'_>| match meanings.get(&record.event.id.0) {
            Some(message) => act(message, record),
            None => Ok(Answer::Done),
        };
        let numbers: Vec<u32> = self.buffer.parts(0).map(|(number, _)| number).collect();
        let rings = numbers.into_iter().zip(self.buffer.rings_mut());
        self.mail.poll(rings, until, &self.events, &mut act)
    }

    /// Messages that wait for their turn although they were looked at.
    pub fn waiting(&self) -> usize {
        self.mail.waiting()
    }

    /// Messages refused because the ring was full, of which no agent has spoken yet: that is noted in the ring itself, for the next one.
    pub fn take_lost(&mut self) -> Option<Lost> {
        let holds = u64::from(self.buffer.ring().geometry().data());
        let before = std::mem::replace(&mut self.first, false);
        let count = self
            .buffer
            .rings_mut()
            .map(kestrel_hook::buffer::ring::Ring::take_discarded)
            .sum();
        (count > 0).then_some(Lost { count, before, holds })
    }
}
