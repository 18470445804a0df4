//! Closures in the order of their priorities, registered and unregistered while others run: those of probes, and those of a session that is watched.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The closures of one event; `F` is what they are called with (`dyn FnMut(&Hit) + Send`).
pub(crate) struct Callbacks<F: ?Sized>(Arc<Mutex<Vec<Arc<Entry<F>>>>>);

struct Entry<F: ?Sized> {
    priority: i32,
    id: u64,
    gone: AtomicBool,
    /// The thread that runs it.
    by: Mutex<Option<ThreadId>>,
    closure: Mutex<Box<F>>,
}

/// A closure that is registered, until this is dropped.
///
/// When `drop` returns, no thread runs it any more. Dropped inside of the closure itself, it returns at once, and the closure is not called again.
#[must_use = "the closure is unregistered when this is dropped"]
pub struct Callback(Option<Box<dyn FnOnce() + Send>>);

impl Callback {
    /// Leaves the closure registered for as long as there are events for it.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: ?Sized + Send + 'static> Callbacks<F> {
    /// Registers a closure behind those of its priority: higher ones are called first.
    pub(crate) fn register(&self, priority: i32, closure: Box<F>) -> Callback {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let entry = Arc::new(Entry {
            priority,
            id: LAST.fetch_add(1, Ordering::Relaxed),
            gone: AtomicBool::new(false),
            by: Mutex::new(None),
            closure: Mutex::new(closure),
        });
        let mut all = lock(&self.0);
        let at = all.partition_point(|known| known.priority >= priority);
        all.insert(at, Arc::clone(&entry));
        let list = Arc::downgrade(&self.0);
        Callback(Some(Box::new(move || {
            entry.gone.store(true, Ordering::Relaxed);
            if let Some(list) = list.upgrade() {
                lock(&list).retain(|known| known.id != entry.id);
            }
            if *lock(&entry.by) != Some(thread::current().id()) {
                // It is locked while it runs.
                drop(lock(&entry.closure));
            }
        })))
    }

    /// Calls `call` with each, in order. Closures may register and unregister others, and themselves.
    pub(crate) fn each(&self, mut call: impl FnMut(&mut F)) {
        // Which there are is decided now; one that is registered meanwhile sees the next event.
        let all: Vec<Arc<Entry<F>>> = lock(&self.0).clone();
        for entry in all {
            let mut closure = lock(&entry.closure);
            if entry.gone.load(Ordering::Relaxed) {
                continue;
            }
            let _running = Running::new(&entry.by);
            call(closure.as_mut());
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// Says which thread runs a closure, until it is left, also by a panic.
struct Running<'e>(&'e Mutex<Option<ThreadId>>);

impl<'e> Running<'e> {
    fn new(by: &'e Mutex<Option<ThreadId>>) -> Self {
        *lock(by) = Some(thread::current().id());
        Self(by)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

impl<F: ?Sized> Default for Callbacks<F> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<F: ?Sized> Clone for Callbacks<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> fmt::Debug for Callbacks<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priorities: Vec<i32> = lock(&self.0).iter().map(|entry| entry.priority).collect();
        f.debug_tuple("Callbacks").field(&priorities).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    type CallLog = Arc<Mutex<Vec<&'static str>>>;

    fn logs(log: &CallLog, what: &'static str) -> Box<dyn FnMut(&u32) + Send> {
        let log = Arc::clone(log);
        Box::new(move |_| lock(&log).push(what))
    }

    #[test]
    fn they_are_called_in_order_as_long_as_they_are_registered() {
        let (all, log) = (Callbacks::<dyn FnMut(&u32) + Send>::default(), CallLog::default());
        let _low = all.register(-1, logs(&log, "low"));
        let first = all.register(5, logs(&log, "first"));
        let _second = all.register(5, logs(&log, "second"));
        all.register(0, logs(&log, "kept")).keep();
        all.each(|closure| closure(&0));
        assert_eq!(*lock(&log), ["first", "second", "kept", "low"]);
        drop(first);
        lock(&log).clear();
        all.each(|closure| closure(&0));
        assert_eq!(*lock(&log), ["second", "kept", "low"]);
    }

    #[test]
    fn a_closure_may_end_itself_and_others_and_register_some() {
        let (all, log) = (Callbacks::<dyn FnMut(&u32) + Send>::default(), CallLog::default());
        let slot: Arc<Mutex<Vec<Callback>>> = Arc::default();
        let (own, more, calls) = (Arc::clone(&slot), all.clone(), Arc::clone(&log));
        let ending = move |_: &u32| {
            lock(&calls).push("ending");
            let ended = std::mem::take(&mut *lock(&own));
            drop(ended);
            more.register(1, logs(&calls, "new")).keep();
        };
        let itself = all.register(9, Box::new(ending));
        let other = all.register(2, logs(&log, "other"));
        lock(&slot).extend([itself, other]);
        all.each(|closure| closure(&0));
        assert_eq!(*lock(&log), ["ending"], "the other was ended before its turn");
        all.each(|closure| closure(&0));
        assert_eq!(*lock(&log), ["ending", "new"]);
    }

    #[test]
    fn unregistering_waits_for_a_closure_that_runs() {
        let all = Callbacks::<dyn FnMut(&u32) + Send>::default();
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        let closure = move |_: &u32| {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            flag.store(true, Ordering::Relaxed);
        };
        let callback = all.register(0, Box::new(closure));
        let runner = {
            let all = all.clone();
            thread::spawn(move || all.each(|closure| closure(&0)))
        };
        begins.recv().unwrap();
        let ended = thread::spawn(move || drop(callback));
        end.send(()).unwrap();
        ended.join().unwrap();
        assert!(done.load(Ordering::Relaxed));
        runner.join().unwrap();
        assert!(all.is_empty());
    }
}
