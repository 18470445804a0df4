//! Forks: a thread takes the locks of registrations before it forks, so that its child, which has no other thread, finds none of them held and no change half done.

use crate::{callbacks, enable, thread, watch};
use std::cell::Cell;
use std::mem::ManuallyDrop;

/// The locks, in the order in which others take them. Who has one waits for no callback, since callbacks may fork.
struct Locks {
    _enabled: enable::Guard,
    _watched: watch::Guard,
    #[cfg(listed_events)]
    _listened: crate::user_events::Guard,
    _changes: callbacks::Guard,
    _delivery: thread::Guard,
}

thread_local! {
    /// The locks of a thread that forks. Nothing of them has to be dropped, so they are there also where a thread ends.
    static LOCKS: Cell<Option<ManuallyDrop<Locks>>> = const { Cell::new(None) };
}

/// Called before `main`: of the functions that a program has called at forks these are the innermost, so that the others may register callbacks.
#[used]
#[allow(unsafe_code, reason = "a section of functions that are called at the start")]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

#[allow(unsafe_code, reason = "a function of the C library")]
extern "C" fn at_start() {
    // SAFETY: functions that are there as long as the program or library is.
    unsafe {
        libc::pthread_atfork(Some(before), Some(release), Some(in_child));
    }
}

extern "C" fn before() {
    LOCKS.set(Some(ManuallyDrop::new(Locks {
        _enabled: enable::guard(),
        _watched: watch::guard(),
        #[cfg(listed_events)]
        _listened: crate::user_events::guard(),
        _changes: callbacks::guard(),
        _delivery: thread::guard(),
    })));
}

extern "C" fn release() {
    drop(LOCKS.take().map(ManuallyDrop::into_inner));
}

extern "C" fn in_child() {
    release();
    thread::forget_others();
    watch::forget();
}
