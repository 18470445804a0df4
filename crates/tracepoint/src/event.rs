//! Events: what each is.

use crate::io;
use crate::value::{Field, Value};
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// A type that stands for an event: [`crate::events!`] makes one of each.
pub trait Tracepoint {
    /// The event that this type stands for.
    fn event() -> &'static Event;
}

/// A callback that receives an event and the values of its fields.
pub(crate) type ValuesCallback = dyn Fn(&'static Event, &[Value<'_>]) + Send + Sync;

/// Listeners of an event, whatever its arguments are.
pub(crate) trait Listeners: Sync {
    /// Registers a callback that takes values; gives the registration's number.
    fn add(
        &'static self,
        event: &'static Event,
        callback: Arc<ValuesCallback>,
        priority: i32,
    ) -> io::Result<u64>;
    /// Begins to record the event in the rings of threads; gives the registration's number.
    fn record(&'static self, event: &'static Event) -> io::Result<u64>;
    /// Ends a registration.
    fn remove(&'static self, event: &'static Event, id: u64);
}

/// Hits an event's probe with arguments, or looks at it where they are null; gives its semaphore ([`crate::usdt::hit`]).
pub(crate) type Probe = fn(*const u64) -> &'static AtomicU16;

/// An event of the program.
pub struct Event {
    group: &'static str,
    name: &'static str,
    fields: &'static [Field],
    print: &'static str,
    listeners: &'static dyn Listeners,
    probe: Probe,
    /// Whether anybody listens, where keys are flags.
    flag: AtomicBool,
    missed: AtomicU64,
    /// The number in records; 0 where it has none.
    number: AtomicU16,
}

impl Event {
    pub(crate) const fn of(
        (group, name): (&'static str, &'static str),
        fields: &'static [Field],
        print: &'static str,
        listeners: &'static dyn Listeners,
        probe: Probe,
    ) -> Self {
        Self {
            group,
            name,
            fields,
            print,
            listeners,
            probe,
            flag: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            number: AtomicU16::new(0),
        }
    }

    /// The group: the first half of `server:accepted`.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The name within the group.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The fields, in order.
    pub fn fields(&self) -> &'static [Field] {
        self.fields
    }

    /// Print format of its record: text with `{field}`, `{field:x}`, `{field:#x}`, `{field:08x}`.
    pub fn print(&self) -> &'static str {
        self.print
    }

    /// Events that no callback was called for: emitted by a callback of the event itself, from within too many others, or by a thread at its end.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// The number in records.
    #[inline(always)]
    pub(crate) fn number(&self) -> u16 {
        self.number.load(Ordering::Relaxed)
    }

    /// Gives it a number, which it keeps.
    pub(crate) fn set_number(&self, number: u16) {
        self.number.store(number, Ordering::Relaxed);
    }

    pub(crate) fn listeners(&self) -> &'static dyn Listeners {
        self.listeners
    }

    /// Whether a tracer outside of the program is attached to the event's USDT probe.
    pub fn is_traced(&self) -> bool {
        (self.probe)(core::ptr::null()).load(Ordering::Relaxed) > 0
    }

    pub(crate) fn probe(&self) -> Probe {
        self.probe
    }

    pub(crate) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg_attr(patched_keys, allow(dead_code, reason = "keys are code here"))]
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

impl fmt::Display for Event {
    /// `group:name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.group, self.name)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("name", &self.to_string())
            .field("fields", &self.fields)
            .field("print", &self.print)
            .finish_non_exhaustive()
    }
}
