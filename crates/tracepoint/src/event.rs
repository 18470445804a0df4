//! Events: what each is, and the list of them.

use crate::callbacks::{AnyCallbacks, Callbacks, Registration};
use crate::key;
use crate::record::Record;
use crate::value::Field;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What [`crate::events!`] makes of each event: a type that stands for it.
pub trait Tracepoint {
    /// The event.
    fn event() -> &'static Event;
}

/// One event of the program.
pub struct Event {
    group: &'static str,
    name: &'static str,
    fields: &'static [Field],
    print: &'static str,
    callbacks: &'static dyn AnyCallbacks,
    /// Whether anybody listens, where keys are flags.
    flag: AtomicBool,
    missed: AtomicU64,
}

impl Event {
    /// For [`crate::events!`].
    #[doc(hidden)]
    pub const fn new<F: ?Sized + Send + Sync + 'static>(
        (group, name): (&'static str, &'static str),
        fields: &'static [Field],
        print: &'static str,
        callbacks: &'static Callbacks<F>,
    ) -> Self {
        Self {
            group,
            name,
            fields,
            print,
            callbacks,
            flag: AtomicBool::new(false),
            missed: AtomicU64::new(0),
        }
    }

    /// Its group: the first half of `server:accepted`.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// Its name within the group.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its fields, in order.
    pub fn fields(&self) -> &'static [Field] {
        self.fields
    }

    /// How its record is printed: text with `{field}`, `{field:x}`, `{field:#x}`, `{field:08x}`.
    pub fn print(&self) -> &'static str {
        self.print
    }

    /// Events that no callback was called for: emitted by a callback of the event itself, from within too many others, or by a thread at its end.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Registers a callback that takes the event's record. Higher priorities are called first, equal ones in the order of their registration.
    ///
    /// # Errors
    /// When the code of the places that emit the event cannot be changed.
    pub fn listen(
        &'static self,
        callback: impl Fn(&Record<'_>) + Send + Sync + 'static,
        priority: i32,
    ) -> io::Result<Registration> {
        self.callbacks.add(self, Arc::new(callback), priority)
    }

    pub(crate) fn callbacks(&self) -> &'static dyn AnyCallbacks {
        self.callbacks
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

/// All events that the program's code emits, by group and name. An event that no code emits is not among them.
pub fn events() -> Vec<&'static Event> {
    let mut events = key::emitters();
    events.sort_by_key(|event| (event.group, event.name));
    events.dedup_by(|a, b| std::ptr::eq(*a, *b));
    events
}

/// The events whose `group:name` matches a pattern of the shell's kind: `server:*`, `*:request_{begin,end}`. Without a colon it is the pattern of a group.
pub fn matching(pattern: &str) -> Vec<&'static Event> {
    let pattern = match pattern.contains(':') {
        true => pattern.to_owned(),
        false => format!("{pattern}:*"),
    };
    let mut events = events();
    events.retain(|event| fast_glob::glob_match(&pattern, event.to_string()));
    events
}
