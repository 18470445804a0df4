//! `instructions getppid|read`: what one system call costs, in nanoseconds of the guest's clock, which are instructions
//! in a guest that counts them (`cargo xtask bench instructions`). It measures whatever is attached; it attaches nothing.
#![forbid(unsafe_code)]

use std::{env, hint::black_box, process::ExitCode, time::Instant};

/// Batches measured; the cheapest counts, because interrupts only ever add.
const BATCHES: u32 = 2000;

/// Calls in a batch: few, so that most batches see no interrupt.
const CALLS: u64 = 16;

/// The cheapest of many batches, in nanoseconds.
fn cheapest(mut batch: impl FnMut()) -> u128 {
    let timed = |batch: &mut dyn FnMut()| {
        let begin = Instant::now();
        batch();
        begin.elapsed().as_nanos()
    };
    (0..BATCHES).map(|_| timed(&mut batch)).min().unwrap_or_default()
}

fn main() -> ExitCode {
    let mut call: Box<dyn FnMut()> = match env::args().nth(1).as_deref() {
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
        _ => {
            eprintln!("usage: instructions getppid|read");
            return ExitCode::from(2);
        }
    };
    let empty = cheapest(|| {});
    let full = cheapest(|| (0..CALLS).for_each(|_| call()));
    let each = (full.saturating_sub(empty) + u128::from(CALLS) / 2) / u128::from(CALLS);
    println!("{each}");
    ExitCode::SUCCESS
}
