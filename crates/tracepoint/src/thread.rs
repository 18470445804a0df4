//! Per-thread state of delivery: its word of the grace periods, the events that it is in, and what it frees when it is out of them.

use crate::event::Event;
use crate::grace::{self, Domain, Inside, Reader};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Events that a thread can be in at once: callbacks that emit events of their own, whose callbacks do.
const DEEPEST: usize = 8;

/// All lists of callbacks.
static DOMAIN: OnceLock<Domain> = OnceLock::new();

fn domain() -> &'static Domain {
    DOMAIN.get_or_init(|| Domain::new(grace::register()))
}

/// Prepares a thread for its first event. Called before any event is on, by a thread that does not fork meanwhile.
pub(crate) fn begin() {
    domain();
}

/// Work postponed until the thread is inside of no event.
type Later = Box<dyn FnOnce()>;

struct Own {
    reader: Arc<Reader>,
    depth: Cell<usize>,
    active: [Cell<Option<&'static Event>>; DEEPEST],
    later: RefCell<Vec<Later>>,
}

impl Drop for Own {
    fn drop(&mut self) {
        domain().leave(&self.reader);
    }
}

thread_local! {
    /// Whether `OWN` is made.
    static IS_JOINED: Cell<bool> = const { Cell::new(false) };
    static OWN: Own = Own {
        reader: {
            let reader = domain().join();
            IS_JOINED.set(true);
            reader
        },
        depth: const { Cell::new(0) },
        active: [const { Cell::new(None) }; DEEPEST],
        later: const { RefCell::new(Vec::new()) },
    };
}

/// The locks of what is freed later and of the readers, taken.
pub(crate) type Guard = (
    MutexGuard<'static, Vec<Free>>,
    Option<MutexGuard<'static, Vec<Arc<Reader>>>>,
);

/// Waits for those that come, go and free.
pub(crate) fn guard() -> Guard {
    (with_the_next(), DOMAIN.get().map(Domain::lock))
}

/// Forgets, in the child of a fork, the parent's other threads, wherever they were.
pub(crate) fn forget_others() {
    let Some(domain) = DOMAIN.get() else { return };
    let own = match IS_JOINED.get() {
        true => OWN.try_with(|own| Arc::clone(&own.reader)).ok(),
        false => None,
    };
    domain.keep(own);
}

/// Takes an event off the thread's list of those it is in, also when a callback panics.
struct Active<'a>(&'a Own);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

/// Runs `deliver` inside of a grace period; not where the event is being delivered by this thread already, or the thread is too deep in events or at its end.
/// Gives whether it ran.
#[inline]
pub(crate) fn deliver(event: &'static Event, deliver: impl FnOnce(&Inside<'_>)) -> bool {
    OWN.try_with(|own| {
        let depth = own.depth.get();
        let is_in = |active: &Cell<Option<&'static Event>>| {
            active.get().is_some_and(|other| std::ptr::eq(other, event))
        };
        let Some(free) = own.active.get(depth) else {
            return false;
        };
        if own.active[..depth].iter().any(is_in) {
            return false;
        }
        free.set(Some(event));
        own.depth.set(depth + 1);
        let active = Active(own);
        let inside = domain().enter(&own.reader);
        deliver(&inside);
        let is_outermost = inside.is_outermost();
        drop(inside);
        drop(active);
        if is_outermost {
            do_later(own);
        }
        true
    })
    .unwrap_or(false)
}

fn do_later(own: &Own) {
    loop {
        // Not borrowed while it runs: what is freed may emit events and unregister, which leaves more to do.
        // Borrowed where a signal's handler came in between: the thread that it interrupted does it.
        let task = own.later.try_borrow_mut().ok().and_then(|mut later| later.pop());
        match task {
            Some(task) => task(),
            None => return,
        }
    }
}

/// A function that frees memory of lists.
pub(crate) type Free = Box<dyn FnOnce() + Send>;

/// Memory that is freed with the next grace period, whoever waits for it.
static WITH_THE_NEXT: Mutex<Vec<Free>> = Mutex::new(Vec::new());

/// Runs `free` with the next grace period that a thread waits for: for memory whose owner need not wait.
pub(crate) fn after_some_grace_period(free: impl FnOnce() + Send + 'static) {
    with_the_next().push(Box::new(free));
}

/// Held for a moment: callbacks that register come here, and a thread that waits for them must not have it.
fn with_the_next() -> MutexGuard<'static, Vec<Free>> {
    WITH_THE_NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees what was left for the next grace period.
pub(crate) fn free_now() {
    after_grace_period(|| ());
}

fn synchronize(own: Option<&Arc<Reader>>) {
    let all = std::mem::take(&mut *with_the_next());
    domain().synchronize(own);
    for free in all {
        free();
    }
}

/// Runs `free` when no other thread reads what was taken out of a list: before this returns, or, inside of a callback, when the thread has left it. Two
/// callbacks that wait for one another would wait for ever.
pub(crate) fn after_grace_period(free: impl FnOnce() + 'static) {
    let own = OWN.try_with(|own| (Arc::clone(&own.reader), own.depth.get() > 0));
    let task = move |reader: Option<&Arc<Reader>>| {
        synchronize(reader);
        free();
    };
    match own {
        Ok((_, true)) => {
            let later: Later = Box::new(move || task(None));
            // The thread is inside of an event, so its data is there.
            let _ = OWN.try_with(|own| own.later.borrow_mut().push(later));
        }
        Ok((reader, false)) => task(Some(&reader)),
        Err(_) => task(None),
    }
}
