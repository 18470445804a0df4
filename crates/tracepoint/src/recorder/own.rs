//! The ring that a thread has, from its first record on until it ends.

use super::ring::{Refused, Ring};
use super::session::Session;
use crate::event::Event;
use crate::place::Slot;
use std::cell::Cell;

thread_local! {
    /// Null: none yet. Rings are never freed.
    static OWN: Cell<*const Ring> = const { Cell::new(std::ptr::null()) };
    /// Whether the thread is looking for one: a signal handler's record cannot wait.
    static IS_SEARCHING: Cell<bool> = const { Cell::new(false) };
    static LEFT: Left = const { Left };
}

/// Gives the thread's ring back when the thread ends.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(ring) = own() {
            OWN.set(std::ptr::null());
            ring.leave();
        }
    }
}

#[allow(unsafe_code, reason = "a ring by its address")]
#[inline(always)]
fn own() -> Option<&'static Ring> {
    // SAFETY: the address is that of a ring, which is never freed, or null.
    unsafe { OWN.get().as_ref() }
}

/// Records an event: a record of so many bytes, whose fixed part ends there, filled by `fill`.
#[doc(hidden)]
#[inline(always)]
#[allow(unsafe_code, reason = "the thread's own ring")]
pub fn keep(event: &'static Event, (size, end): (u32, u32), fill: impl Fn(&mut Slot<'_>)) {
    loop {
        let Some(ring) = own().or_else(take) else { return };
        // SAFETY: the thread has taken the ring.
        match unsafe { ring.write(event.number(), (size, end), &fill) } {
            Ok(()) | Err(Refused::Lost) => return,
            // A recording that has ended: there may be another.
            Err(Refused::Closed) => OWN.set(std::ptr::null()),
        }
    }
}

#[cold]
#[inline(never)]
fn take() -> Option<&'static Ring> {
    let session = Session::now()?;
    if IS_SEARCHING.replace(true) {
        session.lose();
        return None;
    }
    // Where the thread is about to end its ring would never be given back.
    let ring = LEFT.try_with(|_| ()).ok().and_then(|()| session.take());
    IS_SEARCHING.set(false);
    match ring {
        Some(ring) => OWN.set(ring),
        None => session.lose(),
    }
    ring
}

/// Forgets the thread's ring: in the child of a fork it is the parent's.
pub(super) fn forget() {
    OWN.set(std::ptr::null());
}
