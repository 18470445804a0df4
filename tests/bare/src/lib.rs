//! Events of a program and their callbacks where `kestrel-tracepoint` does without the standard library: `cargo test -p bare-tests`. Tested with the whole
//! workspace it has the standard library; events do the same then.
#![cfg(test)]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

kestrel_tracepoint::events! {
    group bare;

    class pair(a: u32, b: i64) { a: u32 = a, b: i64 = b } print "a={a:#x} b={b}";
    event first: pair;
    event second: pair if a > 10;
    event path(path: &str, body: &[u8]) { path: str = path, body: bytes = body, ratio: f64 = 0.5 } print "{path} {body} {ratio}";
    event often(number: u64) { number: u64 = number } print "{number}";
}

#[test]
fn callbacks_are_called_in_order_and_conditions_choose() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let push = |name: &'static str| {
        let seen = Arc::clone(&seen);
        move |a: u32, b: i64| seen.lock().unwrap().push(format!("{name} {a} {b}"))
    };
    trace_first(1, 2);
    let low = first::register(push("low"), -1);
    let high = first::register(push("high"), 1);
    let conditional = second::register(push("second"), 0);
    let record = {
        let seen = Arc::clone(&seen);
        let listen =
            move |record: &kestrel_tracepoint::Record<'_>| seen.lock().unwrap().push(record.to_string());
        first::event().listen(listen, 0).unwrap()
    };
    trace_first(42, -7);
    trace_second(10, 0);
    trace_second(11, 0);
    let names: Vec<String> = seen.lock().unwrap().drain(..).collect();
    assert_eq!(names, ["high 42 -7", "a=0x2a b=-7", "low 42 -7", "second 11 0"]);
    drop((low, high, record, conditional));
    assert!(!first::enabled());
    trace_first(1, 2);
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn fields_and_formats_are_the_same() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let registration = {
        let lines = Arc::clone(&lines);
        let listen =
            move |record: &kestrel_tracepoint::Record<'_>| lines.lock().unwrap().push(record.to_string());
        path::event().listen(listen, 0).unwrap()
    };
    trace_path("/x", &[1, 255]);
    drop(registration);
    assert_eq!(*lines.lock().unwrap(), ["/x {0x01,0xff} 0.5"]);
    assert!(path::event().format().contains("__data_loc char[] path"));
    if cfg!(miri) {
        // The list of events is what a linker has put together; Miri links nothing.
        return;
    }
    let groups = kestrel_tracepoint::events()
        .into_iter()
        .map(|event| event.group());
    assert_eq!(groups.filter(|group| *group == "bare").count(), 4);
}

/// Callbacks come and go while other threads emit: what a callback owns is there whenever it is called, and all of it is freed in the end.
#[test]
fn values_of_callbacks_are_freed_exactly_once() {
    static ALIVE: AtomicU64 = AtomicU64::new(0);
    struct Owned(u64);
    impl Drop for Owned {
        fn drop(&mut self) {
            self.0 = 0;
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
    /// Miri interprets them a thousand times slower.
    const REGISTRATIONS: u32 = if cfg!(miri) { 100 } else { 2_000 };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    trace_often(1);
                }
            });
        }
        for _ in 0..REGISTRATIONS {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            let owned = Owned(7);
            drop(often::register(move |_| assert_eq!(owned.0, 7), 0));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // No reader is inside any more.
    drop(often::register(|_| (), 0));
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
}
