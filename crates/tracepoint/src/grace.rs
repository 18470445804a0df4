//! Grace periods: waiting until every thread has left what it read before, at the cost of two plain stores for the threads that read.
//!
//! A reader writes the number of the current phase into a word of its own, reads, and writes 0. A writer exchanges a pointer, begins a new phase, and waits
//! until no reader's word has an older one: then no reader can hold the old pointer. Between a reader's word and its read of the pointer the processor must
//! not change the order. The writer sees to this with `membarrier(2)`, which makes every running thread of the process do a fence, so that the reader, which
//! is an event that happens millions of times a second, needs none. Where the kernel refuses it, both sides have a fence.

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, fence, pause};

/// Word in which a thread says that it reads. 0: it does not.
#[derive(Debug)]
pub(crate) struct Reader(AtomicU64);

impl Reader {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether the thread reads now.
    pub(crate) fn is_inside(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// The readers of a set of pointers, and their phases.
#[derive(Debug)]
pub(crate) struct Domain {
    phase: AtomicU64,
    readers: Mutex<Vec<Arc<Reader>>>,
    /// Whether a writer makes the readers' fences for them.
    is_asymmetric: bool,
}

/// A thread is inside until this is dropped. Only the outermost of several ends it, so a signal handler may come at any point of it.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    reader: &'a Reader,
    is_outermost: bool,
}

impl Domain {
    /// A domain; `is_asymmetric` only where [`heavy`] works.
    pub(crate) fn new(is_asymmetric: bool) -> Self {
        Self {
            phase: AtomicU64::new(1),
            readers: Mutex::new(Vec::new()),
            is_asymmetric,
        }
    }

    /// A reader for the thread that calls.
    pub(crate) fn join(&self) -> Arc<Reader> {
        let reader = Arc::new(Reader::new());
        self.lock().push(Arc::clone(&reader));
        reader
    }

    /// The thread of this reader ends.
    pub(crate) fn leave(&self, reader: &Arc<Reader>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, reader));
    }

    /// Begins to read pointers, until the guard is dropped.
    #[inline]
    pub(crate) fn enter<'a>(&self, reader: &'a Reader) -> Inside<'a> {
        let is_outermost = !reader.is_inside();
        if is_outermost {
            reader
                .0
                .store(self.phase.load(Ordering::Relaxed), Ordering::Relaxed);
            self.light();
        }
        Inside { reader, is_outermost }
    }

    /// Waits until what could be read before the call is read by no other thread. `own` is the caller's reader, which it does not wait for.
    pub(crate) fn synchronize(&self, own: Option<&Arc<Reader>>) {
        self.heavy();
        // A reader that takes the old number after this has not read yet, or is waited for in vain: both are right.
        let phase = self.phase.fetch_add(1, Ordering::SeqCst) + 1;
        let readers = self.lock().clone();
        for reader in readers {
            if own.is_some_and(|own| Arc::ptr_eq(own, &reader)) {
                continue;
            }
            for tries in 0.. {
                let seen = reader.0.load(Ordering::Acquire);
                if seen == 0 || seen >= phase {
                    break;
                }
                pause(tries);
            }
        }
        self.heavy();
    }

    #[inline]
    fn light(&self) {
        #[cfg(not(loom))]
        if self.is_asymmetric {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
            return;
        }
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) {
        #[cfg(not(loom))]
        if self.is_asymmetric {
            heavy();
        }
        fence(Ordering::SeqCst);
    }

    /// No thread is a reader but this one, if it is: the others are those of before a fork.
    #[cfg(not(loom))]
    pub(crate) fn keep(&self, own: Option<Arc<Reader>>) {
        let others = std::mem::replace(&mut *self.lock(), own.into_iter().collect());
        drop(others);
    }

    #[cfg(not(loom))]
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Reader>>> {
        // A panic between push and retain leaves a list that is right.
        self.readers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(loom)]
    fn lock(&self) -> loom::sync::MutexGuard<'_, Vec<Arc<Reader>>> {
        match self.readers.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

impl Inside<'_> {
    /// Whether this thread was inside of nothing before.
    pub(crate) fn is_outermost(&self) -> bool {
        self.is_outermost
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_outermost {
            self.reader.0.store(0, Ordering::Release);
        }
    }
}

/// Every running thread of the process does a fence before this returns.
#[cfg(not(any(loom, miri)))]
#[allow(unsafe_code, reason = "a system call")]
fn heavy() {
    // SAFETY: the call takes numbers and touches no memory of ours.
    unsafe {
        libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
}

#[cfg(miri)]
fn heavy() {}

/// Asks the kernel for [`heavy`]; whether it grants it.
#[cfg(not(any(loom, miri)))]
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn register() -> bool {
    // SAFETY: as in `heavy`.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
            0,
            0,
        )
    };
    answer == 0
}

#[cfg(any(loom, miri))]
pub(crate) fn register() -> bool {
    false
}
