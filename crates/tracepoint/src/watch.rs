//! Watches for tracers outside of the program (perf, bpftrace): events are on while the semaphore of their USDT probe or the word of their `user_events` is not 0.

use crate::callbacks::Registration;
use crate::event::Event;
use crate::events::events;
use crate::thread;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Events that are on for tracers outside.
static WATCHED: Mutex<Vec<(&'static Event, Registration)>> = Mutex::new(Vec::new());

/// Time between two looks at semaphores: a tracer that attaches sees the first event so much later.
const PAUSE: Duration = Duration::from_millis(100);

/// The lock of the events that are on, taken.
pub(crate) type Guard = MutexGuard<'static, Vec<(&'static Event, Registration)>>;

/// Waits for a look that goes on.
pub(crate) fn guard() -> Guard {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a thread looks.
static RUNS: AtomicBool = AtomicBool::new(false);

/// Forgets, in the child of a fork, the thread that watches.
pub(crate) fn forget() {
    RUNS.store(false, Ordering::Relaxed);
}

/// Looks at the semaphores of all probes, and which tracepoints of the kernel's `user_events` are listened to, once. Gives how many events are on for tracers outside.
pub fn look() -> usize {
    let mut watched = guard();
    let mut is_refused = false;
    let all = std::mem::take(&mut *watched);
    let (mut on, off): (Vec<_>, Vec<_>) = all.into_iter().partition(|(event, _)| event.is_traced());
    for event in events() {
        if event.is_traced() && !on.iter().any(|(other, _)| std::ptr::eq(*other, event)) {
            // Where code cannot be patched, the tracer sees nothing; the next look tries again.
            match event.listen_for_tracer() {
                Ok(registration) => on.push((event, registration)),
                Err(_) => is_refused = true,
            }
        }
    }
    #[cfg_attr(not(listed_events), allow(unused_mut, reason = "no others there"))]
    let mut all: Vec<&'static Event> = on.iter().map(|(event, _)| *event).collect();
    *watched = on;
    drop(watched);
    // Each waits for callbacks, which may look, too.
    drop(off);
    if is_refused {
        thread::free_now();
    }
    #[cfg(listed_events)]
    for event in crate::user_events::update() {
        if !all.iter().any(|other| std::ptr::eq(*other, event)) {
            all.push(event);
        }
    }
    all.len()
}

/// Looks, and has a thread look ten times a second. Programs call [`crate::init`], which does; the child of a fork without an exec calls this, since it has no such thread.
///
/// # Errors
/// When there can be no thread.
pub fn watch() -> io::Result<()> {
    if events().is_empty() || RUNS.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    #[cfg(listed_events)]
    crate::user_events::register();
    // Events that earlier tracers wait for are on from the first one.
    look();
    let thread = std::thread::Builder::new()
        .name("kestrel-usdt".to_owned())
        .stack_size(64 << 10);
    let thread = thread.spawn(|| {
        loop {
            look();
            std::thread::sleep(PAUSE);
        }
    });
    RUNS.store(thread.is_ok(), Ordering::Relaxed);
    thread.map(drop)
}
