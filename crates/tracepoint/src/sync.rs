//! The types of synchronization that are modelled: loom's in a model, the standard library's elsewhere.

#[cfg(all(not(loom), feature = "std"))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, Ordering, fence};
#[cfg(all(not(loom), not(feature = "std")))]
pub(crate) use spin::Mutex;
#[cfg(all(not(loom), feature = "std"))]
pub(crate) use std::sync::{Arc, Mutex};

/// Waits for the lock; what a thread left that panicked counts.
#[cfg(all(not(loom), feature = "std"))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for the lock.
#[cfg(all(not(loom), not(feature = "std")))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> spin::Guard<'_, T> {
    mutex.lock()
}

/// Waits for the lock; what a thread left that panicked counts.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// A lock for places that cannot sleep: it is held for a few instructions, when callbacks come and go.
#[cfg(all(not(loom), not(feature = "std")))]
mod spin {
    use core::cell::UnsafeCell;
    use core::ops::{Deref, DerefMut};
    use core::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug)]
    pub(crate) struct Mutex<T> {
        is_taken: AtomicBool,
        value: UnsafeCell<T>,
    }

    #[allow(unsafe_code, reason = "a lock")]
    // SAFETY: one thread at a time has the value.
    unsafe impl<T: Send> Sync for Mutex<T> {}

    pub(crate) struct Guard<'a, T>(&'a Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self {
                is_taken: AtomicBool::new(false),
                value: UnsafeCell::new(value),
            }
        }

        pub(super) fn lock(&self) -> Guard<'_, T> {
            while self.is_taken.swap(true, Ordering::Acquire) {
                core::hint::spin_loop();
            }
            Guard(self)
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        #[allow(unsafe_code, reason = "a lock")]
        fn deref(&self) -> &T {
            // SAFETY: the guard has the lock.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[allow(unsafe_code, reason = "a lock")]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: the guard has the lock.
            unsafe { &mut *self.0.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0.is_taken.store(false, Ordering::Release);
        }
    }
}

/// Lets other threads run: a moment at first, then for longer. A thread that sleeps gets the processor back sooner than one that yields.
#[cfg(all(not(loom), feature = "std"))]
pub(crate) fn pause(tries: u32) {
    if tries < 16 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// Lets other threads run.
#[cfg(loom)]
pub(crate) fn pause(_: u32) {
    loom::thread::yield_now();
}

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex},
};
