//! Delivery where there is no standard library, so that no thread has words of its own: all that are inside of events are counted together.
//!
//! Removing an element from a list does not wait: it is freed with the first change that finds no reader inside. There is no guard against an event within itself.

use crate::event::Event;
use crate::sync::{Mutex, Ordering, fence, lock};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::sync::atomic::AtomicUsize;

/// Lists may be read.
pub(crate) struct Inside<'a>(PhantomData<&'a ()>);

static INSIDE: AtomicUsize = AtomicUsize::new(0);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::Release);
    }
}

/// Prepares a thread for its first event: nothing is needed.
pub(crate) fn begin() {}

/// Delivers an event. Gives whether it did.
#[inline]
pub(crate) fn deliver(_: &'static Event, deliver: impl FnOnce(&Inside<'_>)) -> bool {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    deliver(&Inside(PhantomData));
    true
}

/// A function that frees memory.
type Free = Box<dyn FnOnce() + Send>;

static LATER: Mutex<Vec<Free>> = Mutex::new(Vec::new());

/// Runs `free` when no reader has an element that was removed from a list: now, or with a later change.
pub(crate) fn after_grace_period(free: impl FnOnce() + Send + 'static) {
    let all = {
        let mut later = lock(&LATER);
        later.push(Box::new(free));
        fence(Ordering::SeqCst);
        // A reader that comes in after this finds the list as it is now.
        match INSIDE.load(Ordering::SeqCst) {
            0 => core::mem::take(&mut *later),
            _ => return,
        }
    };
    // Freed values may unregister others.
    all.into_iter().for_each(|free| free());
}

/// Frees after some grace period: without waiting here.
pub(crate) fn after_some_grace_period(free: impl FnOnce() + Send + 'static) {
    after_grace_period(free);
}
