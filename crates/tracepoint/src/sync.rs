//! The types of synchronization that are modelled: loom's in a model, the standard library's elsewhere.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex},
};

/// Lets other threads run: a moment at first, then for longer. A thread that sleeps gets the processor back sooner than one that yields.
#[cfg(not(loom))]
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
