//! The agent: acts in user space on what handlers ask for (`notify`, `exec`, `dump`); a session goes on without it, and what was asked waits in its ring.
//!
//! A message is a record in the session's `messages` buffer, a stream. It is acknowledged in the ring itself once it was acted on: an agent that dies leaves the rest to
//! the next one. What it was acting on at that moment, and what came after a command that waits for its turn, may be done again.

pub mod dumps;
pub mod limit;
pub mod log;
pub mod message_queue;
pub mod metrics;
pub mod run;
pub mod user;

use crate::session::pinned::PinnedSession;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::bell::{Bell, Doorbell};
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs;
use kestrel_trace::action::Action;
use kestrel_trace::decode::EventTable;
use kestrel_trace::record::Record;
use message_queue::MessageQueue;
use std::os::fd::BorrowedFd;

/// The name of the buffer that messages go through.
pub use kestrel_hook::buffer::name::MESSAGES as BUFFER;
/// Bytes of it per CPU.
pub use kestrel_hook::buffer::name::MESSAGES_BYTES as BYTES;

/// Reaction to a message that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The message was acted on, or never will be.
    Done,
    /// Not now: the message waits, while those behind it are looked at.
    Later,
}

/// The messages buffer of a session as it is read: what its records ask, and how far that was done.
#[derive(Debug)]
pub struct MessageReader {
    events: EventTable,
    mail: MessageQueue,
    /// Whether what was lost is asked for the first time.
    first: bool,
}

/// The messages of a persistent session.
#[derive(Debug)]
pub struct Inbox {
    buffer: Buffer,
    /// Doorbell that the writers of messages ring.
    doorbell: Option<Doorbell>,
    messages: MessageReader,
}

/// Messages that a session's buffer lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Number of messages lost.
    pub count: u64,
    /// Whether that was before this agent listened.
    pub before: bool,
    /// Bytes per CPU that the buffer holds.
    pub holds: u64,
}

impl Inbox {
    /// Inbox of messages from the handlers of a session.
    ///
    /// # Errors
    /// The kernel's, or when a part is missing.
    pub fn open(session: &PinnedSession) -> Result<Self> {
        let buffer = session.buffers()?.into_iter().find(|b| b.name() == BUFFER);
        let buffer = buffer.ok_or_else(|| Error::State {
            session: session.name().to_owned(),
            why: "it has no buffer for messages".to_owned(),
        })?;
        Ok(Self {
            doorbell: session.message_bell()?,
            ..Self::new(buffer, EventTable::new(session.info()?.events))
        })
    }

    /// The inbox over a session's messages buffer.
    pub fn new(buffer: Buffer, events: EventTable) -> Self {
        Self {
            buffer,
            doorbell: None,
            messages: MessageReader::new(events),
        }
    }

    /// The inbox as it is after the session was changed: other events, perhaps another ring.
    #[must_use]
    pub fn renewed(&mut self, now: Self) -> Self {
        let before = &mut self.messages;
        Self {
            messages: MessageReader {
                mail: std::mem::take(&mut before.mail),
                first: before.first,
                ..now.messages
            },
            ..now
        }
    }

    /// Readable when the next message has come since [`Inbox::poll`] began; `None` in sessions of Kestrels that had no such thing.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.doorbell.as_ref().map(Doorbell::fd)
    }

    /// Shows every message that waits, oldest first over all CPUs, and acknowledges those that were acted on. Gives their number.
    ///
    /// # Errors
    /// Errors of `act`; messages acknowledged before are not undone.
    pub fn poll(&mut self, act: &mut Act<'_>) -> Result<usize> {
        if let Some(doorbell) = &mut self.doorbell {
            doorbell.drain()?;
            for (_, part) in self.buffer.parts(0) {
                part.ring().listen(Bell::Records);
            }
        }
        self.messages.poll(&self.buffer, act)
    }

    /// Messages that wait for their turn although they were looked at.
    pub fn waiting(&self) -> usize {
        self.messages.waiting()
    }

    /// Messages lost because the ring was full that no agent has reported yet: the ring itself notes that, for the next agent.
    pub fn take_lost(&mut self) -> Option<Lost> {
        self.messages.take_lost(&self.buffer)
    }
}

/// Does what a record asks.
pub type Act<'a> = dyn FnMut(&Action, &Record<'_>) -> Result<Answer> + 'a;

impl MessageReader {
    /// A reader that has read nothing yet; these are the session's events.
    pub fn new(events: EventTable) -> Self {
        Self {
            events,
            mail: MessageQueue::default(),
            first: true,
        }
    }

    /// Like [`Inbox::poll`], of the session's buffer.
    ///
    /// # Errors
    /// As there.
    pub fn poll(&mut self, buffer: &Buffer, act: &mut Act<'_>) -> Result<usize> {
        let until = procfs::monotonic();
        let rings = || buffer.parts(0).map(|(number, part)| (number, part.ring()));
        if self.mail.is_new(rings()) {
            // A program that read its clock before that moment has written its record then. A kernel that cannot be asked leaves the order
            // to the length of the rest between two looks.
            let _unasked = wait_for_running_programs();
        }
        let mut act = |record: &Record<'_>| match &record.event.action {
            Some(action) => act(action, record),
            None => Ok(Answer::Done),
        };
        self.mail.poll(rings(), until, &self.events, &mut act)
    }

    /// Like [`Inbox::waiting`].
    pub fn waiting(&self) -> usize {
        self.mail.waiting()
    }

    /// Like [`Inbox::take_lost`], of the session's buffer.
    pub fn take_lost(&mut self, buffer: &Buffer) -> Option<Lost> {
        let holds = u64::from(buffer.ring().geometry().data());
        let before = std::mem::replace(&mut self.first, false);
        let count = buffer.parts(0).map(|(_, part)| part.ring().take_lost()).sum();
        (count > 0).then_some(Lost { count, before, holds })
    }
}
