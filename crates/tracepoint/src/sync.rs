//! The types of synchronization that are modelled: loom's in a model, the standard library's elsewhere.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex},
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex},
    thread::yield_now,
};
