//! `cost getppid|read|null|number|event [BATCHES CALLS PAUSE]`: what one system call, or a number without and with an event of the program's own that has no listener, costs,
//! in nanoseconds of this machine's clock; in a guest that counts them, nanoseconds are instructions. It measures whatever is attached; it attaches nothing.
//!
//! PAUSE, in milliseconds, is slept between batches, so that a recorder can empty its buffers: an event that is lost
//! because a buffer is full costs less than one that is recorded.
#![forbid(unsafe_code)]

use std::{
    env,
    hint::black_box,
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

kestrel_tracepoint::events! {
    group cost;

    event counted(number: u64, twice: u64, square: u64) {
        number: u64 = number,
        twice: u64 = twice,
        square: u64 = square,
    } print "{number} {twice} {square}";
}

/// Numbers, each with an event or without, that count as one call: what a function needs to be called at all is not the event's.
const ROUNDS: u64 = 100;

/// Batches measured unless said otherwise; the cheapest counts, because interrupts only ever add.
const BATCHES: u64 = 2000;

/// Calls in a batch unless said otherwise: few, so that most batches see no interrupt.
const CALLS: u64 = 16;

/// The cheapest of many batches, in nanoseconds.
fn cheapest(batches: u64, pause: Duration, mut batch: impl FnMut()) -> u128 {
    let timed = |batch: &mut dyn FnMut()| {
        if !pause.is_zero() {
            sleep(pause);
        }
        let begin = Instant::now();
        batch();
        begin.elapsed().as_nanos()
    };
    (0..batches).map(|_| timed(&mut batch)).min().unwrap_or_default()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (batches, calls) = (number(1, BATCHES), number(2, CALLS).max(1));
    let pause = Duration::from_millis(number(3, 0));
    let mut call: Box<dyn FnMut()> = match arguments.first().map(String::as_str) {
        Some("getppid") => Box::new(|| {
            black_box(rustix::process::getppid());
        }),
        Some("read") => {
            let Ok(zero) = std::fs::File::open("/dev/zero") else {
                return ExitCode::FAILURE;
            };
            Box::new(move || {
                let mut byte = [0; 1];
                let _ = black_box(rustix::io::read(&zero, &mut byte));
            })
        }
        Some("null") => {
            let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") else {
                return ExitCode::FAILURE;
            };
            Box::new(move || {
                let _ = black_box(rustix::io::write(&null, b"x"));
            })
        }
        Some("number") => {
            let mut number = 0;
            Box::new(move || {
                let mut round = 0;
                while round < ROUNDS {
                    round = black_box(round + 1);
                    number = black_box(number + 1);
                }
            })
        }
        Some("event") => {
            let mut number = 0;
            Box::new(move || {
                let mut round = 0;
                while round < ROUNDS {
                    round = black_box(round + 1);
                    number = black_box(number + 1);
                    trace_counted!(number, number * 2, number * number);
                }
            })
        }
        _ => {
            eprintln!("usage: cost getppid|read|null|number|event [BATCHES CALLS PAUSE]");
            return ExitCode::from(2);
        }
    };
    let empty = cheapest(batches, pause, || {});
    let full = cheapest(batches, pause, || (0..calls).for_each(|_| call()));
    let each = (full.saturating_sub(empty) + u128::from(calls) / 2) / u128::from(calls);
    println!("{each}");
    ExitCode::SUCCESS
}
