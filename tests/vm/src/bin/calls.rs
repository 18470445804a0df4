//! `calls WHAT N [THREADS]`: makes exactly N system calls of one kind, or calls of a function of its own, in each of its threads, for tests that count; it does nothing else on purpose.
#![forbid(unsafe_code)]

use std::{env, hint, io, process::ExitCode, thread};

fn usage() -> ExitCode {
    eprintln!("usage: calls deep|function|getppid|getpriority|mark|open|read|seek N [THREADS]");
    ExitCode::from(2)
}

/// The function that a uprobe is on: a number in the first register, the address and the length of a text in the next two. The number is doubled.
#[inline(never)]
fn doubled(number: u64, text: &str) -> u64 {
    hint::black_box((number, text)).0 * 2
}

/// Calls it with 0, 1, 2, …
fn function_calls(count: u64) -> io::Result<()> {
    for number in 0..count {
        if hint::black_box(doubled(
            hint::black_box(number),
            hint::black_box("a text of the program"),
        )) != number * 2
        {
            return Err(io::Error::other("what was probed does something else"));
        }
    }
    Ok(())
}

/// Functions that call one another, each with a frame of its own and none with a frame pointer: `level_1` calls `level_2`, …, the last one makes a system call.
macro_rules! levels {
    ($name:ident $($rest:ident)*) => {
        levels!(@ $name, $($rest)*);
    };
    (@ $name:ident, $next:ident $($rest:ident)*) => {
        #[inline(never)]
        fn $name(number: u64) -> u64 {
            let kept = hint::black_box([number; 4]);
            hint::black_box($next(hint::black_box(number + 1))) ^ kept[1]
        }
        levels!(@ $next, $($rest)*);
    };
    (@ $name:ident,) => {
        #[inline(never)]
        fn $name(number: u64) -> u64 {
            vm_tests::getppid_calls(1);
            hint::black_box(number) + 1
        }
    };
}

levels!(level_1 level_2 level_3 level_4 level_5 level_6 level_7 level_8 level_9 level_10 level_11 level_12);

/// Goes down twelve functions for each call.
fn deep_calls(count: u64) -> io::Result<()> {
    (0..count).for_each(|number| _ = hint::black_box(level_1(number)));
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let count: Option<u64> = arguments.get(1).and_then(|text| text.parse().ok());
    let threads = arguments.get(2).map_or(Some(1), |text| text.parse().ok());
    let calls: fn(u64) -> io::Result<()> = match arguments.first().map(String::as_str) {
        Some("deep") => deep_calls,
        Some("function") => function_calls,
        Some("getppid") => |count| {
            vm_tests::getppid_calls(count);
            Ok(())
        },
        Some("getpriority") => vm_tests::getpriority_calls,
        Some("open") => vm_tests::open_calls,
        Some("read") => vm_tests::read_calls,
        Some("seek") => vm_tests::seek_calls,
        Some("mark") => vm_tests::mark_calls,
        _ => return usage(),
    };
    let (Some(count), Some(threads)) = (count, threads) else {
        return usage();
    };
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(|| calls(count))).collect();
        let own = calls(count);
        let others = threads.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(_) => Err(io::Error::other("a thread panicked")),
        });
        others.fold(own, io::Result::and)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calls: {error}");
            ExitCode::FAILURE
        }
    }
}
