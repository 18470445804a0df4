//! Events while callbacks come and go: none is delivered to a callback that is gone, and one that stays is given every event.
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

kestrel_tracepoint::events! {
    group stress;

    event steady(number: u64) { number: u64 = number } print "{number}";
    event turned(number: u64) { number: u64 = number } print "{number}";
}

const EVENTS: u64 = 100_000_000;

/// A value owned by a callback. Its memory is never freed, so that a callback that runs too late is seen instead of reading what is anything by then.
struct Owned {
    is_alive: &'static AtomicBool,
    calls: Arc<AtomicU64>,
}

impl Owned {
    fn new(flags: &'static [AtomicBool], at: usize, calls: &Arc<AtomicU64>) -> Self {
        let is_alive = &flags[at % flags.len()];
        is_alive.store(true, Ordering::SeqCst);
        Self {
            is_alive,
            calls: Arc::clone(calls),
        }
    }

    fn call(&self) {
        assert!(self.is_alive.load(Ordering::Relaxed), "called after its end");
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.is_alive.store(false, Ordering::SeqCst);
    }
}

fn until_called(calls: &AtomicU64) {
    let before = calls.load(Ordering::Relaxed);
    while calls.load(Ordering::Relaxed) == before {
        thread::yield_now();
    }
}

/// Emits at least so many events from so many threads, and goes on until callbacks have come and gone so often.
fn storm(threads: u64, events: u64, rounds: usize) {
    let flags: &'static [AtomicBool] = Vec::leak((0..1 << 16).map(|_| AtomicBool::new(false)).collect());
    let (passing, turned) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, emitted) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let steady_count = {
        let counted = Arc::clone(&counted);
        steady::register(
            move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            },
            0,
        )
    };
    let (is_over, begin) = (AtomicBool::new(false), Barrier::new(threads as usize + 1));
    thread::scope(|scope| {
        let emit = || {
            begin.wait();
            let mut number = 0;
            while number < events / threads || !is_over.load(Ordering::Relaxed) {
                trace_steady(number);
                trace_turned(number);
                number += 1;
                // Threads that lose the processor at any place would mostly lose it inside of a callback, and be waited for.
                if number % 256 == 0 {
                    thread::yield_now();
                }
            }
            emitted.fetch_add(number, Ordering::Relaxed);
        };
        for _ in 0..threads {
            scope.spawn(emit);
        }
        begin.wait();
        for at in 0..rounds {
            for call in [0, 1].map(|of| Owned::new(flags, at * 3 + of, &passing)) {
                let registration = steady::register(move |_| call.call(), at as i32 % 3 - 1);
                until_called(&passing);
                drop(registration);
            }
            // There are no other listeners: each of these turns the places on and off.
            let call = Owned::new(flags, at * 3 + 2, &turned);
            let registration = turned::register(move |_| call.call(), 0);
            until_called(&turned);
            drop(registration);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(steady_count);
    println!(
        "{} events, {} of them also to callbacks that came and went, {} while the places were turned",
        emitted.load(Ordering::Relaxed),
        passing.load(Ordering::Relaxed),
        turned.load(Ordering::Relaxed)
    );
    assert_eq!(counted.load(Ordering::Relaxed), emitted.load(Ordering::Relaxed));
    assert_eq!(steady::event().missed() + turned::event().missed(), 0);
}

#[test]
fn events_while_callbacks_come_and_go() {
    storm(2, EVENTS, 1000);
    storm(64, EVENTS / 10, 200);
}
