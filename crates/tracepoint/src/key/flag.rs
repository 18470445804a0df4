//! Keys as flags in memory.

use crate::event::{Event, Tracepoint};
use std::io;
use std::sync::{Mutex, PoisonError};

static KNOWN: Mutex<Vec<&'static Event>> = Mutex::new(Vec::new());

/// Whether anybody listens to `T`.
#[inline(always)]
pub(crate) fn is_on<T: Tracepoint>() -> bool {
    T::event().flag().load(std::sync::atomic::Ordering::Relaxed)
}

/// The events that have been listened to: without a linker's table no others are known.
pub(crate) fn emitters() -> Vec<&'static Event> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Has every place of the event deliver it, or pass by.
pub(crate) fn turn(event: &'static Event, on: bool) -> io::Result<()> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.iter().any(|other| std::ptr::eq(*other, event)) {
        known.push(event);
    }
    event.flag().store(on, std::sync::atomic::Ordering::SeqCst);
    Ok(())
}
