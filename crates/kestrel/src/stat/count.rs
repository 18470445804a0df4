//! Counts: events, their parts, and how much of each.

use kestrel_catalog::catalog::counter::counted::Named;
use kestrel_kernel::perf::Reading;

/// An event that is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Name of the count: the counter as it was typed, or the event with its predicate.
    pub name: String,
    /// The counter, where it is no event of a tracer.
    pub counter: Option<Named>,
}

/// Part of an event's hits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// All hits.
    All,
    /// Hits on a CPU.
    Cpu(u32),
    /// Hits of a thread.
    Thread {
        /// The thread's name.
        comm: String,
        /// The thread's number.
        tid: u32,
    },
    /// Hits for which the expressions had these values.
    By(Vec<String>),
}

/// Amount of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This machine cannot count it.
    NotSupported,
    /// The reading; nothing at all where the event never had a counter ([`Reading::running`] is 0).
    Counted(Reading),
}

/// A counted figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Which of [`Stat::events`](super::Stat::events).
    pub event: usize,
    /// The part of the event's count: a CPU, a thread, or all.
    pub part: Part,
    /// The amount that was counted.
    pub amount: Amount,
}
