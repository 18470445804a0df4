//! The callbacks of one event, and registrations, which end when they are dropped.

use crate::arguments;
use crate::event::{Event, Listeners, Probe, ValuesCallback};
use crate::io;
use crate::key;
use crate::list::{Changes, Entry, List, Old};
use crate::record::Record;
use crate::sync::{Mutex, lock};
use crate::thread;
use crate::value::{Field, Value};
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// The lock of all lists, held while one changes and code with it, and by a thread that forks. A thread that has it waits for no callback: callbacks register, too.
static CHANGES: Mutex<Changes> = Mutex::new(Changes::new());

/// The lock of all lists, taken.
#[cfg(feature = "std")]
pub(crate) type Guard = std::sync::MutexGuard<'static, Changes>;

/// Waits for changes that go on.
#[cfg(feature = "std")]
pub(crate) fn guard() -> Guard {
    lock(&CHANGES)
}

/// Callbacks of an event, those that take its arguments (`F`) and those that take its record, in one order.
pub struct Callbacks<F: ?Sized + 'static> {
    list: List<Callback<F>>,
}

enum Callback<F: ?Sized> {
    Arguments(Arc<F>),
    Values(Arc<ValuesCallback>),
    /// A record in the thread's ring.
    Kept,
}

impl<F: ?Sized> Clone for Callback<F> {
    fn clone(&self) -> Self {
        match self {
            Self::Arguments(callback) => Self::Arguments(Arc::clone(callback)),
            Self::Values(callback) => Self::Values(Arc::clone(callback)),
            Self::Kept => Self::Kept,
        }
    }
}

impl<F: ?Sized + Send + Sync + 'static> Callbacks<F> {
    /// An empty list.
    #[allow(clippy::new_without_default, reason = "statics need a const function")]
    pub const fn new() -> Self {
        Self { list: List::new() }
    }

    /// Registers one that takes the event's arguments.
    ///
    /// # Errors
    /// When the code of the places that emit the event cannot be changed.
    pub fn register(
        &'static self,
        event: &'static Event,
        callback: Arc<F>,
        priority: i32,
    ) -> io::Result<Registration> {
        let id = self.insert(event, Callback::Arguments(callback), priority)?;
        Ok(Registration { event, id })
    }

    fn insert(&'static self, event: &'static Event, what: Callback<F>, priority: i32) -> io::Result<u64> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Entry { priority, id, what };
        let mut alone = lock(&CHANGES);
        thread::begin();
        let changed = self.list.insert(&mut alone, entry, || key::turn(event, true));
        drop(alone);
        match changed {
            Ok(old) => {
                // All callbacks that are in it are registered still.
                if !old.is_empty() {
                    thread::after_some_grace_period(move || old.free());
                }
                Ok(id)
            }
            Err((error, old)) => {
                // The caller may have locks that callbacks take.
                thread::after_some_grace_period(move || old.free());
                Err(error)
            }
        }
    }

    /// Calls the event's callbacks in order: `call` calls one with the event's arguments, `record` gives the values of its fields, `keep` writes a record.
    #[inline]
    pub fn deliver(
        &self,
        event: &'static Event,
        call: impl Fn(&F),
        record: impl Fn(&mut dyn FnMut(&[Value<'_>])),
        keep: impl Fn(),
    ) {
        let is_delivered = thread::deliver(event, |inside| {
            for entry in self.list.read(inside) {
                match &entry.what {
                    Callback::Arguments(callback) => call(callback),
                    Callback::Values(callback) => record(&mut |values| callback(event, values)),
                    Callback::Kept => keep(),
                }
            }
            if event.is_traced() {
                record(&mut |values| {
                    arguments::with(values, |words| {
                        event.probe()(words);
                    });
                });
            }
        });
        if !is_delivered {
            event.miss();
        }
    }
}

impl<F: ?Sized + Send + Sync + 'static> Listeners for Callbacks<F> {
    fn add(
        &'static self,
        event: &'static Event,
        callback: Arc<ValuesCallback>,
        priority: i32,
    ) -> io::Result<u64> {
        self.insert(event, Callback::Values(callback), priority)
    }

    fn record(&'static self, event: &'static Event) -> io::Result<u64> {
        // The record stands before those of events that callbacks emit.
        self.insert(event, Callback::Kept, i32::MAX)
    }

    fn remove(&'static self, event: &'static Event, id: u64) {
        // Turning a key off writes what was there before; where that is refused events come to an empty list.
        let old = self
            .list
            .remove(&mut lock(&CHANGES), id, || _ = key::turn(event, false));
        free(old);
    }
}

fn free<T: Send + 'static>(old: Old<T>) {
    thread::after_grace_period(move || old.free());
}

impl<F: ?Sized> fmt::Debug for Callbacks<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl Event {
    /// For [`crate::events!`].
    #[doc(hidden)]
    pub const fn new<F: ?Sized + Send + Sync + 'static>(
        names: (&'static str, &'static str),
        fields: &'static [Field],
        print: &'static str,
        callbacks: &'static Callbacks<F>,
        probe: Probe,
    ) -> Self {
        Self::of(names, fields, print, callbacks, probe)
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
        let callback =
            move |event: &'static Event, values: &[Value<'_>]| callback(&Record::new(event, values));
        let id = self.listeners().add(self, Arc::new(callback), priority)?;
        Ok(Registration { event: self, id })
    }

    /// Begins to record the event in the rings of threads.
    pub(crate) fn record(&'static self) -> io::Result<Registration> {
        let id = self.listeners().record(self)?;
        Ok(Registration { event: self, id })
    }

    /// Registers a listener that does nothing, so that the event is delivered and its USDT probe hit.
    pub(crate) fn listen_for_tracer(&'static self) -> io::Result<Registration> {
        let id = self.listeners().add(self, Arc::new(|_, _| ()), i32::MIN)?;
        Ok(Registration { event: self, id })
    }
}

/// A callback that is registered, until this is dropped.
///
/// When `drop` returns, no thread runs the callback any more, and none will. Dropped inside of a callback it returns at once: no thread begins the callback
/// any more, and this one waits for the others when it has left its own callbacks, since two that wait for each other would wait for ever.
#[derive(Debug)]
#[must_use = "the callback is unregistered when this is dropped"]
pub struct Registration {
    event: &'static Event,
    id: u64,
}

impl Registration {
    /// The event that is listened to.
    pub fn event(&self) -> &'static Event {
        self.event
    }

    /// Leaves the callback registered for as long as the program runs.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.event.listeners().remove(self.event, self.id);
    }
}
